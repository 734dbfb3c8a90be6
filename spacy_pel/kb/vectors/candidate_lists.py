"""The answer of a search: the best entities of each query, and how such lists are made of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Candidates(NamedTuple):
    """The best entities of n queries, sorted by score, highest first, then by number.

    Attributes:
        numbers: int64 [n, k], the numbers of the entities; -1 where there are fewer than k.
        scores: float32 [n, k], inner products; -inf where there are fewer than k.
    """

    numbers: np.ndarray
    scores: np.ndarray


def no_candidates(n: int, k: int) -> Candidates:
    """k empty places for each of n queries."""
    return Candidates(
        np.full((n, k), -1, dtype=np.int64), np.full((n, k), -np.inf, dtype=np.float32)
    )


def first_occurrences(entities: np.ndarray) -> np.ndarray:
    """Booleans [n, m]: whether the entity does not stand earlier in its line."""
    order = np.argsort(entities, axis=1, kind="stable")
    grouped = np.take_along_axis(entities, order, axis=1)
    starts = np.ones(entities.shape, dtype=bool)
    starts[:, 1:] = grouped[:, 1:] != grouped[:, :-1]
    first = np.empty_like(starts)
    np.put_along_axis(first, order, starts, axis=1)
    return first


def compacted(entities: np.ndarray, scores: np.ndarray, kept: np.ndarray, k: int) -> Candidates:
    """The first k kept entities of each line, moved to the left and filled up with -1."""
    rank = kept.cumsum(axis=1) - 1
    lines, places = np.nonzero(kept & (rank < k))
    ranks = rank[lines, places]
    candidates = no_candidates(len(entities), k)
    candidates.numbers[lines, ranks] = entities[lines, places]
    candidates.scores[lines, ranks] = scores[lines, places]
    return candidates
