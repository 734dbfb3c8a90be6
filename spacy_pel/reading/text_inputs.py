"""Inputs of the encoders: token ids in batches, whatever is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

# The inputs of one pass, by the names of the arguments of the encoder's ``forward``: "ids", int64
# [n, t], "mask", bool [n, t], true where there is a token, and others. "perturbation", float32
# [n, t, d], is added to the input embeddings; it may be missing.
Batch = dict[str, np.ndarray]


class EncoderInputs(Protocol):
    """Inputs of a tower around a BERT. Each is one sequence of tokens, with one output or several."""

    # The most tokens of a pass where each core has passes of its own. A longer input has its own.
    core_tokens: int

    def lengths(self) -> np.ndarray:
        """The number of tokens of each input, int64 [n]."""
        ...

    def outputs_of(self, group: np.ndarray) -> np.ndarray:
        """The places of the outputs, int64 [m], that the inputs at the places of a group give."""
        ...

    def padded(self, group: np.ndarray, pad_id: int, least: int) -> Batch:
        """The inputs of a group in one length, with at least so many tokens, padding included."""
        ...


class TokenIds(NamedTuple):
    """One input."""

    ids: np.ndarray  # int32 [t]
    start: int  # the first token of the mention, of the title, or of the entity's side of a pair
    end: int  # the token after its last


class TextInputs(NamedTuple):
    """Inputs of one output each (``EncoderInputs``)."""

    tokens: Sequence[TokenIds]
    # None, or for each input a float32 [t, d] that is added to its input embeddings. Then the
    # backward pass gives the gradient with respect to each.
    perturbations: Sequence[np.ndarray] | None = None
    # In inference on a CPU each core has passes of its own. The last bits of a vector depend on what
    # else is in its pass, so it is the same for any number of threads.
    core_tokens = 1024

    def lengths(self) -> np.ndarray:
        return np.array([len(x.ids) for x in self.tokens], dtype=np.int64)

    def outputs_of(self, group: np.ndarray) -> np.ndarray:
        return group

    def padded(self, group: np.ndarray, pad_id: int, least: int) -> Batch:
        """As of ``EncoderInputs``. "focus" is from start to end, or on all if that is empty."""
        own = [self.tokens[i] for i in group]
        ids, mask = pad_ids([x.ids for x in own], pad_id, least)
        position = np.arange(mask.shape[1])
        starts, ends = np.array([(x.start, x.end) for x in own]).T
        focus = (position >= starts[:, None]) & (position < ends[:, None])
        focus[starts == ends] = mask[starts == ends]
        batch = {"ids": ids, "mask": mask, "focus": focus}
        if self.perturbations is not None:
            own = [self.perturbations[i] for i in group]
            batch["perturbation"] = _spread(own, batch["mask"])
        return batch


class Window(NamedTuple):
    """A piece of a document that is read at once, with an output for each of its mentions or words."""

    ids: np.ndarray  # int32 [t]
    outputs: np.ndarray  # int64 [m], the places of its outputs among those of all windows
    known: Mapping[str, np.ndarray]  # what is known of each token, [t, ...], as in a ``Batch``
    # int64 [m, 2], the first token of each mention and the one after its last; None for words.
    spans: np.ndarray | None = None


class WindowInputs(NamedTuple):
    """Windows (``EncoderInputs``)."""

    windows: Sequence[Window]
    # A window gets a pass of its own: its outputs are the same whatever other documents are read.
    core_tokens = 1

    def lengths(self) -> np.ndarray:
        return np.array([len(window.ids) for window in self.windows], dtype=np.int64)

    def outputs_of(self, group: np.ndarray) -> np.ndarray:
        none = np.empty(0, dtype=np.int64)
        return np.concatenate([none, *(self.windows[i].outputs for i in group)])

    def padded(self, group: np.ndarray, pad_id: int, least: int) -> Batch:
        """As of ``EncoderInputs``. Tokens of spans are counted through all rows, with padding."""
        windows = [self.windows[i] for i in group]
        ids, mask = pad_ids([window.ids for window in windows], pad_id, least)
        batch = {"ids": ids, "mask": mask}
        for name in windows[0].known:
            batch[name] = _spread([window.known[name] for window in windows], mask)
        if windows[0].spans is not None:
            spans = [row * mask.shape[1] + window.spans for row, window in enumerate(windows)]
            batch["spans"] = np.concatenate(spans)
        return batch


def pad_ids(ids: Sequence[np.ndarray], pad_id: int, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids in one length, int64 [n, t], ``least`` together, and where there is a token, bool."""
    lengths = np.array([len(x) for x in ids])
    mask = np.arange(max(lengths.max(), -(-least // len(ids)))) < lengths[:, None]
    padded = np.full(mask.shape, pad_id, dtype=np.int64)
    padded[mask] = np.concatenate(ids)
    return padded, mask


def _spread(values: Sequence[np.ndarray], mask: np.ndarray) -> np.ndarray:
    """The values of tokens, each [t, ...], where the mask has the tokens, and zeros elsewhere."""
    spread = np.zeros((*mask.shape, *values[0].shape[1:]), dtype=values[0].dtype)
    spread[mask] = np.concatenate(values)
    return spread


def groups_by_length(lengths: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Group inputs by their lengths, int64 [n], so that little is padding; shorter ones come first.

    A group has ``max_tokens`` at most, padding included, or one input.
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
