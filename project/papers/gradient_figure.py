"""Draw the gradient of the proxy-based loss by the score of a pair, before and after the bias.

python papers/gradient_figure.py ../docs/images/loss-gradient.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from papers.plots import Line, lines_figure
from spacy_pel.models.losses import ProxyLoss

# Of one layer of MiniLM, on BC5CDR and NCBI disease: see "claim-small" in results.jsonl.
BIAS = 0.79


def gradients(bias: float, scores: np.ndarray) -> dict[str, Line]:
    """The size of the gradient, divided by alpha, of a right pair and of a wrong one, by their scores."""
    loss = ProxyLoss(bias=bias)
    lines = {}
    for name, is_right in (("right pair, pulled", True), ("wrong pair, pushed", False)):
        score = torch.tensor(scores, requires_grad=True)
        fixed = torch.full_like(score, bias)
        positive, negative = (score, fixed) if is_right else (fixed, score)
        loss.of_scores(positive, negative[:, None]).sum().backward()
        lines[name] = Line(scores, score.grad.abs().numpy() / loss.alpha)
    return lines


def main(path: Path) -> None:
    scores = np.linspace(-0.5, 1, 301)
    panels = {
        "Eq. 3": gradients(0.0, scores),
        f"Eq. 3 of s - b, b = {BIAS}": gradients(BIAS, scores),
    }
    figure = lines_figure(panels, "cosine of the pair", "size of the gradient / alpha")
    for axis in figure.axes:
        axis.axvspan(0.65, 0.77, color="#000000", alpha=0.12, lw=0)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
