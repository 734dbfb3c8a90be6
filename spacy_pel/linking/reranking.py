"""The second look: the best candidates of each mention, ordered again by a reranker's scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..kb.vectors.index import Candidates
from ..reading.mention import MentionInContext

if TYPE_CHECKING:
    from .reranker import Reranker


class Reranking(NamedTuple):
    """How candidates are reranked."""

    reranker: Reranker  # the cross-encoder
    kb: KnowledgeBase  # where the candidates' texts are
    top: int  # the number of candidates of each mention that are reranked, from the best


class Found(NamedTuple):
    """What an ordering looks at."""

    mentions: Sequence[MentionInContext]
    # Those of the mentions, [n, k], best first by the retriever, or by the reranker.
    candidates: Candidates
    rerank_scores: np.ndarray | None = None  # as ``Links.rerank_scores``
    groups: np.ndarray | None = None  # int [n], the group of each mention, as of ``link``
    # float32 [n, d], the vectors of the mentions; None if they are not to be looked at.
    vectors: np.ndarray | None = None


class Ordered(NamedTuple):
    """What names, or a learnt ranking, say of the candidates of n mentions."""

    order: np.ndarray  # int64 [n, k], the places of the candidates in their new order
    # float32 [n, k], the probability of each candidate, in the new order; NaN for one that was not
    # looked at. None if nothing was fitted.
    chances: np.ndarray | None = None
    # float32 [n], the probability that a candidate is right, which decides about NIL. None: the
    # retriever's score decides.
    in_kb: np.ndarray | None = None


def reranked_candidates(
    found: Candidates,
    mentions: Sequence[MentionInContext],
    reranking: Reranking,
    groups: np.ndarray | None = None,
) -> tuple[Candidates, np.ndarray]:
    """Order the best candidates [n, k] of each mention by their rerank scores, equal ones by ids.

    The others follow in the order they had. Mentions of a group, int [n], have the same candidates;
    each candidate gets the mean of the scores that the mentions give it.

    Returns:
        The candidates in their new order, and their rerank scores, float32 [n, k]: the logarithm of
        a candidate's probability among those reranked; NaN for the others.
    """
    reranker, kb, top = reranking
    numbers = found.numbers[:, :top]
    scores = reranker.scores(mentions, numbers, found.scores[:, :top], kb)
    rerank_scores = np.full(found.scores.shape, np.nan, dtype=np.float32)
    rerank_scores[:, :top] = log_softmax(scores if groups is None else group_means(scores, groups))

    distinct = np.unique(numbers[numbers >= 0]).tolist()
    ids = {number: id for number, (id, _) in zip(distinct, kb.labels(distinct))}
    order = np.tile(np.arange(rerank_scores.shape[1]), (len(rerank_scores), 1))
    for columns, row, candidates in zip(order, rerank_scores, numbers):
        keys = [(-row[i], ids[n]) for i, n in enumerate(candidates.tolist()) if n >= 0]
        columns[: len(keys)] = sorted(range(len(keys)), key=keys.__getitem__)
    candidates = Candidates(*in_order(order, *found))
    (rerank_scores,) = in_order(order, rerank_scores)
    return candidates, np.where(candidates.numbers < 0, np.float32(np.nan), rerank_scores)


def group_means(rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Each of the rows [n, ...] replaced by the mean, summed in float64, of its group's, int [n]."""
    _, members, counts = np.unique(groups, return_inverse=True, return_counts=True)
    together = rows[np.argsort(members, kind="stable")]
    sums = np.add.reduceat(together, counts.cumsum() - counts, dtype=np.float64)
    return (sums / counts[:, None]).astype(rows.dtype)[members]


def in_order(order: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
    """Each of the arrays [n, k] with its columns in the given order, int64 [n, k]."""
    return [np.take_along_axis(array, order, axis=1) for array in arrays]


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Each row of scores [n, k] as logarithms of probabilities; -inf, for no candidate, stays."""
    best = scores.max(axis=1, keepdims=True, initial=np.finfo(np.float32).min)
    total = np.exp(scores - best).sum(axis=1, keepdims=True)
    return scores - best - np.log(np.maximum(total, np.finfo(np.float32).tiny))
