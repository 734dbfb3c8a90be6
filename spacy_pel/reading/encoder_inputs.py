"""What a tower around a BERT needs to know of its inputs, whatever is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np


class TokenBatch(NamedTuple):
    """Padded inputs.

    Attributes:
        ids: int64 [n, t], the token ids.
        mask: bool [n, t], true where there is a token.
        focus: bool [n, t], true where a token stands between the start and the end of its input.
    """

    ids: np.ndarray
    mask: np.ndarray
    focus: np.ndarray


class PaddedInputs(NamedTuple):
    """Inputs of one pass through an encoder.

    Attributes:
        batch: The padded inputs. Its fields have the names of the arguments of the encoder's ``forward``.
        perturbation: float32 [n, t, d], what is added to the input embeddings; None for nothing.
    """

    batch: NamedTuple
    perturbation: np.ndarray | None = None


class EncoderInputs(Protocol):
    """Inputs of a tower around a BERT, in any number.

    An input is one sequence of tokens. It may have one output or several.
    """

    @property
    def core_tokens(self) -> int:
        """The most tokens of a pass where each core has passes of its own.

        An input that has more tokens gets a pass of its own.
        """
        ...

    @property
    def n_outputs(self) -> int:
        """The number of outputs of all inputs."""
        ...

    def lengths(self) -> np.ndarray:
        """The number of tokens of each input, int64 [n]."""
        ...

    def outputs_of(self, group: np.ndarray) -> np.ndarray:
        """Which of all outputs a group of inputs gives.

        Args:
            group: int64 [g], the places of the inputs.

        Returns:
            int64 [m], the places of the outputs, in the order in which the encoder gives them.
        """
        ...

    def padded(self, group: np.ndarray, pad_id: int, least: int) -> PaddedInputs:
        """A group of inputs, padded to one length.

        Args:
            group: int64 [g], the places of the inputs.
            pad_id: The id of the padding token.
            least: The least number of tokens of the group, padding included.
        """
        ...


def pad_ids(ids: Sequence[np.ndarray], pad_id: int, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Pad token ids to one length.

    Args:
        ids: The ids of each input, int32 [t].
        pad_id: The id of the padding token.
        least: The least number of tokens of all inputs, padding included.

    Returns:
        The padded ids, int64 [n, t], and bool [n, t], true where there is a token.
    """
    lengths = np.array([len(x) for x in ids])
    mask = np.arange(max(lengths.max(), -(-least // len(ids)))) < lengths[:, None]
    padded = np.full(mask.shape, pad_id, dtype=np.int64)
    padded[mask] = np.concatenate(ids)
    return padded, mask


def groups_by_length(lengths: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Group inputs by length so that little is padding.

    Args:
        lengths: int64 [n], the number of tokens of each input.
        max_tokens: The most tokens of a group, padding included. A group has at least one input.

    Returns:
        The places of the inputs of each group, int64; shorter inputs come first.
    """
    order = np.argsort(lengths, kind="stable")
    groups, first = [], 0
    for position, longest in enumerate(lengths[order].tolist()):
        if position > first and (position - first + 1) * longest > max_tokens:
            groups.append(order[first:position])
            first = position
    if len(order):
        groups.append(order[first:])
    return groups
