"""Texts as token ids: inputs that give one output each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .encoder_inputs import PaddedInputs, TokenBatch, pad_ids

# The most tokens of a pass where each core has passes of its own, in inference on a CPU. The last
# bits of a vector depend on what else is in its pass, so it is the same for any number of threads.
CORE_TOKENS = 1024


class TokenIds(NamedTuple):
    """One input.

    Attributes:
        ids: int32 [t], the token ids.
        start: The first token of the mention, of the title, or of the entity's side of a pair.
        end: The token after its last.
    """

    ids: np.ndarray
    start: int
    end: int


class TextInputs(NamedTuple):
    """Inputs of one output each (``EncoderInputs``).

    Attributes:
        tokens: The inputs.
        perturbations: None, or for each input a float32 [t, d] that is added to its input embeddings.
            Then the backward pass gives the gradient with respect to each.
    """

    tokens: Sequence[TokenIds]
    perturbations: Sequence[np.ndarray] | None = None

    @property
    def core_tokens(self) -> int:
        return CORE_TOKENS

    @property
    def n_outputs(self) -> int:
        return len(self.tokens)

    def lengths(self) -> np.ndarray:
        return np.array([len(x.ids) for x in self.tokens], dtype=np.int64)

    def outputs_of(self, group: np.ndarray) -> np.ndarray:
        return group

    def padded(self, group: np.ndarray, pad_id: int, least: int) -> PaddedInputs:
        batch = pad_texts([self.tokens[i] for i in group], pad_id, least)
        if self.perturbations is None:
            return PaddedInputs(batch)
        own = [self.perturbations[i] for i in group]
        return PaddedInputs(batch, _pad_rows(own, batch.ids.shape[1]))


def pad_texts(inputs: Sequence[TokenIds], pad_id: int, least: int = 0) -> TokenBatch:
    """The inputs as one padded batch.

    A mention that has no token of its own (blanks, for example) is in focus with its whole input.

    Args:
        inputs: The inputs, at least one.
        pad_id: The id of the padding token.
        least: The least number of tokens of the batch, padding included.
    """
    ids, mask = pad_ids([x.ids for x in inputs], pad_id, least)
    position = np.arange(mask.shape[1])
    starts, ends = np.array([(x.start, x.end) for x in inputs]).T
    focus = (position >= starts[:, None]) & (position < ends[:, None])
    focus[starts == ends] = mask[starts == ends]
    return TokenBatch(ids, mask, focus)


def _pad_rows(arrays: Sequence[np.ndarray], length: int) -> np.ndarray:
    """Pad arrays [t, d] to one float32 [n, length, d]."""
    padded = np.zeros((len(arrays), length, arrays[0].shape[1]), dtype=np.float32)
    for row, array in zip(padded, arrays):
        row[: len(array)] = array
    return padded
