"""The passes of an adversarial step through a tower, in bounded memory (PEL, Eq. 5 to 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..models.adversarial import FGSM
from ..reading.text_inputs import TextInputs, TokenIds
from .trainer import StepLoss

# The number of tokens that go through the encoder together. Memory grows with it.
HELD_TOKENS = 8192

# From inputs, and the weight of their loss, to that loss and its gradients by the perturbation of each
# input. It adds the gradients of the weighted loss to those of all weights.
Pass = Callable[[TextInputs, float], tuple[float, list[np.ndarray]]]


def clean_inputs(tokens: Sequence[TokenIds], width: int, fgsm: FGSM | None) -> TextInputs:
    """The inputs of the first pass.

    Args:
        tokens: the inputs, with t tokens each.
        width: the width of an input embedding.
        fgsm: if given, the inputs carry perturbations of zero, so that the backward pass gives
            the gradient with respect to each, float32 [t, width].
    """
    if fgsm is None:
        return TextInputs(tokens)
    return TextInputs(tokens, [np.zeros((len(t.ids), width), dtype=np.float32) for t in tokens])


def both_passes(
    tokens: Sequence[TokenIds], width: int, fgsm: FGSM | None, one_pass: Pass
) -> StepLoss:
    """L and lambda L_adv (Eq. 8): the inputs as they are and, with FGSM, perturbed (Eq. 6 and 7)."""
    clean, d_inputs = one_pass(clean_inputs(tokens, width, fgsm), 1.0)
    if fgsm is None:
        return StepLoss(clean, 0.0)
    adversarial, _ = one_pass(TextInputs(tokens, fgsm.perturbations(d_inputs)), fgsm.weight)
    return StepLoss(clean, fgsm.weight * adversarial)


def row_groups(tokens: np.ndarray) -> Iterator[np.ndarray]:
    """The rows in groups of at most HELD_TOKENS tokens, or of one row.

    The loss of a mention needs no other mention, so a step's memory need not grow with its batch.

    Args:
        tokens: the number of tokens of each pair of each mention, integers [n, k].

    Yields:
        The places of the mentions of a group, int64.
    """
    group: list[int] = []
    sizes = tokens.sum(axis=1)
    for row, size in enumerate(sizes.tolist()):
        if group and sizes[group].sum() + size > HELD_TOKENS:
            yield np.array(group)
            group = []
        group.append(row)
    yield np.array(group)
