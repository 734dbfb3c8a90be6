"""Search by names and by mentions together.

A mention is nearer to other mentions than to any name. In one index, names would no longer count.
So the two kinds of rows are searched apart. An entity's score is that of its names, plus a bonus for
its mentions among those nearest to the query:

    score = best name + weight * max(0, closeness - level)
    closeness = log(sum of exp(SHARPNESS * s) over its mentions among the NEAREST) / SHARPNESS

So many mentions that are near count for more than one: what a word mostly means is more probable.
``weight`` and ``level`` are fitted to mentions (``fitting.mention_weight``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .mentions import KnownMentions, MentionWeight, NearMentions
from .stored_vectors import StoredVectors
from .vectors.index import Candidates

NEAREST = 256  # mentions of a query that count
SHARPNESS = 20.0  # 1: all mentions count alike; very high: only the nearest one counts
_DEPTH = 64  # entities found by their names, at least
_TOGETHER = 1024  # queries searched at a time, which limits the memory of a search


class MentionPairs(NamedTuple):
    """Pairs of a query and an entity that has mentions near it, in order of query and number.

    Attributes:
        lines: The query of each pair, int64 [n].
        numbers: The number of its entity, int64 [n].
        closeness: How close the mentions of the entity are, float64 [n].
    """

    lines: np.ndarray
    numbers: np.ndarray
    closeness: np.ndarray


def search_with_mentions(
    stored: StoredVectors,
    mentions: KnownMentions,
    vectors: np.ndarray,
    k: int,
    allowed: np.ndarray | None,
) -> Candidates:
    """The k best entities of each query, by their names and their mentions.

    Args:
        stored: The vectors of the KB.
        mentions: The mentions that it has learnt.
        vectors: The queries, float32 [n, dim].
        k: The number of candidates of each query.
        allowed: Booleans, by number: which entities may be found. None allows all.
    """
    found = []
    for start in range(0, max(1, len(vectors)), _TOGETHER):
        queries = vectors[start : start + _TOGETHER]
        names = stored.search(queries, max(k, _DEPTH), allowed)
        pairs = mention_pairs(mentions.nearest(queries, NEAREST, allowed))
        found.append(_merged(stored, queries, names, pairs, mentions.weight, k))
    return Candidates(*(np.concatenate(each) for each in zip(*found)))


def mention_pairs(near: NearMentions) -> MentionPairs:
    """The pairs of queries and entities whose mentions are near."""
    lines, places = np.nonzero(near.numbers >= 0)
    scores = near.scores[lines, places].astype(np.float64)
    order = np.lexsort((near.numbers[lines, places], lines))  # stable: nearest first in each pair
    lines, numbers, scores = lines[order], near.numbers[lines, places][order], scores[order]
    starts = np.flatnonzero(np.diff(lines, prepend=-1) | np.diff(numbers, prepend=-1))
    if not len(starts):
        return MentionPairs(lines, numbers, scores)
    best = scores[starts]
    behind = np.diff(starts, append=len(lines))
    sums = np.add.reduceat(np.exp(SHARPNESS * (scores - np.repeat(best, behind))), starts)
    return MentionPairs(lines[starts], numbers[starts], best + np.log(sums) / SHARPNESS)


class ScoredPairs(NamedTuple):
    """Pairs of a query and an entity that is found by its names or by its mentions.

    Attributes:
        lines: The query of each pair, int64 [n].
        numbers: The number of its entity, int64 [n].
        by_name: The score of its names, float32 [n].
        closeness: As in ``MentionPairs``; -inf for an entity without a mention near the query.
    """

    lines: np.ndarray
    numbers: np.ndarray
    by_name: np.ndarray
    closeness: np.ndarray


def scored_pairs(
    stored: StoredVectors, vectors: np.ndarray, names: Candidates, pairs: MentionPairs
) -> ScoredPairs:
    """Those found by names and those found by mentions, each with both of its scores.

    Args:
        stored: The vectors of the KB.
        vectors: The queries, float32 [n, dim].
        names: The entities found by their names.
        pairs: Those found by their mentions.
    """
    named, places = np.nonzero(names.numbers >= 0)
    found = names.numbers[named, places]
    closeness = np.full(len(named), -np.inf)
    at = _places(named, found, pairs.lines, pairs.numbers)
    closeness[at[at >= 0]] = pairs.closeness[at >= 0]
    lines, numbers, others = (x[at < 0] for x in pairs)
    scores = stored.name_scores(vectors, lines, numbers)
    return ScoredPairs(
        np.concatenate([named, lines]),
        np.concatenate([found, numbers]),
        np.concatenate([names.scores[named, places], scores]),
        np.concatenate([closeness, others]),
    )


def _merged(
    stored: StoredVectors,
    vectors: np.ndarray,
    names: Candidates,
    pairs: MentionPairs,
    weight: MentionWeight,
    k: int,
) -> Candidates:
    """The best k of those found by names and those found by mentions."""
    close = pairs.closeness > weight.level  # the others gain nothing
    raised = MentionPairs(*(x[close] for x in pairs))
    found = scored_pairs(stored, vectors, names, raised)
    bonus = weight.weight * np.maximum(found.closeness - weight.level, 0)
    scores = found.by_name + bonus.astype(np.float32)
    return stored.best(len(vectors), found.lines, found.numbers, scores, k)


def _places(
    lines: np.ndarray, numbers: np.ndarray, of_lines: np.ndarray, of_numbers: np.ndarray
) -> np.ndarray:
    """Where pairs stand among distinct other pairs: int64 [of_lines]; -1 for those that do not."""
    if not len(lines):
        return np.full(len(of_lines), -1)
    size = max(numbers.max(), of_numbers.max(initial=0)) + 1
    keys, wanted = lines * size + numbers, of_lines * size + of_numbers
    order = np.argsort(keys)
    places = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[places] == wanted, places, -1)
