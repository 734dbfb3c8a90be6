"""What a tower reads in the two passes of an adversarial step (PEL, Eq. 5 to 8)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..models.adversarial import FGSM
from ..reading.text_inputs import TextInputs, TokenIds


def clean_inputs(tokens: Sequence[TokenIds], width: int, fgsm: FGSM | None) -> TextInputs:
    """The inputs of the first pass.

    Args:
        tokens: the inputs, n of them, with t tokens each.
        width: the width of an input embedding.
        fgsm: if given, the inputs carry perturbations of zero, so that the backward pass gives
            the gradient with respect to each, float32 [t, width].
    """
    if fgsm is None:
        return TextInputs(tokens)
    zeros = [np.zeros((len(token_ids.ids), width), dtype=np.float32) for token_ids in tokens]
    return TextInputs(tokens, zeros)


def perturbed_inputs(
    tokens: Sequence[TokenIds], d_inputs: Sequence[np.ndarray], fgsm: FGSM
) -> TextInputs:
    """The inputs of the second pass (PEL, Eq. 6 and 7).

    Args:
        tokens: the inputs of the first pass.
        d_inputs: what its backward pass gave for each of them, float32 [t, width].
        fgsm: makes the perturbations.
    """
    return TextInputs(tokens, fgsm.perturbations(d_inputs))
