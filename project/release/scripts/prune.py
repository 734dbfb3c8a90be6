"""Prune attention heads and feed-forward units of a recogniser ("optimal brain surgeon").

Those go first that the others of their layer replace best, and the output weights of the others are fitted
(Hassibi and Stork 1993; for groups of weights: Kurtic et al. 2023, "ZipLM", section 3.1).
"""

import json
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from spacy_pel.models.bert import architecture
from spacy_pel.models.encoders import Tagger

# Added to the diagonal of the products of inputs, as a share of its mean.
DAMPING = 1e-4


def narrowed(
    teacher: Tagger, observed: Iterable[dict[str, Tensor]], heads: int, units: int
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the description and the weights of a narrower tagger, for ``Tagger.restore``.

    Args:
        teacher: The tagger, in float32.
        observed: Inputs. The outputs of each layer for these change least.
        heads: The number of attention heads to keep in each layer.
        units: The number of feed-forward units to keep in each layer.
    """
    grams: dict[str, Tensor] = {}

    def observe(name: str, inputs: Tensor) -> None:
        rows = nn.functional.pad(inputs.flatten(0, -2), (0, 1), value=1.0)  # 1: the bias
        grams[name] = grams.get(name, 0.0) + (rows.T @ rows).double()

    hooks = [
        module.register_forward_pre_hook(lambda _, given, name=name: observe(name, given[0]))
        for name, module in teacher.transformer.named_modules()
        if name.endswith("output.dense")
    ]
    with torch.no_grad():
        for batch in observed:
            teacher(**batch)
    for hook in hooks:
        hook.remove()
    config = architecture(teacher.transformer)
    width = config.get("attention_size", config["hidden_size"])
    size = width // config["num_attention_heads"]
    config |= {
        "num_attention_heads": heads,
        "attention_size": size * heads,
        "intermediate_size": units,
    }
    weights = {name: weight.clone() for name, weight in teacher.weights().items()}
    attention = [f"attention.self.{name}" for name in ("query", "key", "value")]
    for name, gram in grams.items():
        is_attention = ".attention." in name
        given = torch.cat([weights[f"{name}.weight"].T, weights[f"{name}.bias"][None]]).double()
        kept, fitted = pruned(gram, given, *((size, heads) if is_attention else (1, units)))
        weights[f"{name}.weight"], weights[f"{name}.bias"] = fitted[:-1].T.contiguous(), fitted[-1]
        layer = re.match(r"encoder\.layer\.\d+\.", name)[0]
        for inner in attention if is_attention else ["intermediate.dense"]:
            for kind in ("weight", "bias"):
                weights[f"{layer}{inner}.{kind}"] = weights[f"{layer}{inner}.{kind}"][kept]
    return {**teacher.description(), "config": json.dumps(config)}, weights


def pruned(gram: Tensor, weight: Tensor, size: int, n: int) -> tuple[Tensor, Tensor]:
    """Keep n groups of the inputs of a linear layer, and fit its weights so that its outputs change least.

    Args:
        gram: float64 [i + 1, i + 1], the sum of the products of its inputs; the last input is 1.
        weight: float64 [i + 1, o], its weights, and its bias as the last row.
        size: The number of inputs of a group.
        n: The number of groups to keep.

    Returns:
        The inputs that are kept, int64 [k], and their weights with the bias, float32 [k + 1, o].
    """
    damping = DAMPING * gram.diagonal()[:-1].mean() * torch.eye(len(gram), dtype=gram.dtype)
    inverse, weight = torch.linalg.inv(gram + damping), weight.clone()
    groups = torch.arange(len(gram) - 1).view(-1, size)
    while len(groups) > n:
        own = inverse[groups[:, :, None], groups[:, None, :]]
        losses = (weight[groups] * torch.linalg.solve(own, weight[groups])).sum((1, 2))
        worst = int(losses.argmin())
        gone = groups[worst]
        change = torch.linalg.solve(own[worst], inverse[gone]).T
        weight -= change @ weight[gone]
        inverse -= change @ inverse[gone]
        groups = torch.cat([groups[:worst], groups[worst + 1 :]])
    kept = groups.flatten()
    return kept, weight[[*kept.tolist(), -1]].float()
