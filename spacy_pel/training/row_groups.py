"""Groups of the mentions of a batch that are small enough to be encoded together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

# The number of tokens that go through the encoder together. Memory grows with it.
HELD_TOKENS = 8192


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
