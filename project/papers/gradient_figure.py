"""Draw the gradient of the proxy-based loss by the score of a pair, before and after the bias.

python papers/gradient_figure.py ../docs/images/loss-gradient.svg
"""

import sys

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure

from spacy_pel.models.losses import ProxyLoss

# Of one layer of MiniLM, on BC5CDR and NCBI disease: see "claim-small" in results.jsonl.
BIAS = 0.79
# Colours of Okabe and Ito (2008), which colour-blind readers can tell apart, and dashes for grey print.
LINES = {"right pair, pulled": ("#0072B2", "-"), "wrong pair, pushed": ("#D55E00", "--")}


def gradient(bias: float, scores: np.ndarray, is_right: bool) -> np.ndarray:
    """The size of the gradient, divided by alpha, of a right pair or of a wrong one, by its scores."""
    loss = ProxyLoss(bias=bias)
    score = torch.tensor(scores, requires_grad=True)
    fixed = torch.full_like(score, bias)
    positive, negative = (score, fixed) if is_right else (fixed, score)
    loss.of_scores(positive, negative[:, None]).sum().backward()
    return score.grad.abs().numpy() / loss.alpha


scores = np.linspace(-0.5, 1, 301)
figure = Figure(figsize=(10, 3.8), layout="constrained")
axes = figure.subplots(1, 2, sharey=True)
for axis, bias, title in zip(axes, (0, BIAS), ("Eq. 3", f"Eq. 3 of s - b, b = {BIAS}")):
    for name, (colour, dash) in LINES.items():
        sizes = gradient(bias, scores, name.startswith("right"))
        axis.plot(scores, sizes, ls=dash, color=colour, label=name, linewidth=1.6)
    axis.set(title=title, xlabel="cosine of the pair")
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
    axis.axvspan(0.65, 0.77, color="#000000", alpha=0.12, lw=0)
axes[0].set_ylabel("size of the gradient / alpha")
with matplotlib.rc_context({"svg.hashsalt": "spacy_pel"}):  # the same bytes each time
    figure.savefig(sys.argv[1], metadata={"Date": None})
