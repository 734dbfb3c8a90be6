"""The one way to link: mentions -> vectors -> candidates -> is one of them the entity, or none?

Used by the pipeline and evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..kb.search_filter import SearchFilter
from ..kb.vectors.index import Candidates
from ..reading.inputs import MentionInContext
from .retriever import Retriever

CANDIDATES = 64  # of a mention, at least, where names count, and in evaluations: so both agree


class Searchable(Protocol):
    """A knowledge base, or an index in memory."""

    def search(
        self, vectors: np.ndarray, k: int, only: SearchFilter | None = None
    ) -> Candidates: ...


class Ranker(Protocol):
    """A reranker (see ``reranker.Reranker.scores``)."""

    def scores(
        self,
        mentions: Sequence[MentionInContext],
        numbers: np.ndarray,
        found: np.ndarray,
        kb: KnowledgeBase,
        weight: float,
    ) -> np.ndarray: ...


class Reranking(NamedTuple):
    """A second look at the ``top`` best candidates of each mention, by the texts in the KB.

    weight: what the cross-encoder's score counts, as of ``reranker.Reranker.scores``.
    """

    reranker: Ranker
    kb: KnowledgeBase
    top: int
    weight: float = 1.0


class Naming(NamedTuple):
    """What the names in the KB say: a candidate that has the mention as one of its names, but for
    case, blanks and punctuation, gets ``weight`` on top of the score that orders candidates."""

    kb: KnowledgeBase
    weight: float


class Calibration(NamedTuple):
    """Platt scaling: the probability that a best candidate is right is a sigmoid of its score.

    reranked: how many candidates were reranked where it was fitted; of the scores of another
        number it says nothing. 0: it is of the retriever's scores.
    """

    slope: float
    intercept: float
    reranked: int = 0

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """float64, in the shape of the scores."""
        logits = self.slope * np.asarray(scores, dtype=np.float64) + self.intercept
        return (1 + np.tanh(logits / 2)) / 2  # a sigmoid that does not overflow


class Weight(NamedTuple):
    """What something is worth beside a score, in its units, as ``pel calibrate`` has fitted it.

    reranked: as of ``Calibration``.
    """

    weight: float
    reranked: int = 0


class Links(NamedTuple):
    """What linking says of n mentions.

    numbers: int64 [n, k], entity numbers, best first; -1 where there are fewer than k.
    scores: float32 [n, k], the retriever's; -inf there.
    nil: bool [n], whether the entity is none of these: the KB lacks it.
    probabilities: float64 [n] that the best candidate is right; None without a calibration.
    rerank_scores: float32 [n, k], the logarithm of each candidate's probability among those that
        were reranked; NaN of the others; None without a reranker.
    named: bool [n, k], whether the mention is a name of the candidate; None without ``Naming``.
    """

    numbers: np.ndarray
    scores: np.ndarray
    nil: np.ndarray
    probabilities: np.ndarray | None
    rerank_scores: np.ndarray | None = None
    named: np.ndarray | None = None

    @property
    def ranking_scores(self) -> np.ndarray:
        """Float [n, k]: by what candidates are ordered but for names; -inf if not reranked."""
        return _ranking_scores(self.scores, self.rerank_scores)


def link(
    retriever: Retriever,
    index: Searchable,
    mentions: Sequence[MentionInContext],
    k: int,
    *,
    nil_threshold: float | None = None,
    calibration: Calibration | None = None,
    reranking: Reranking | None = None,
    naming: Naming | None = None,
    only: Sequence[SearchFilter | None] | None = None,
    groups: np.ndarray | None = None,
) -> Links:
    """The k best entities of each mention, and whether it is NIL.

    nil_threshold: a mention whose best score by the retriever is below it is NIL, and so is one
        without a candidate; None: no mention is.
    reranking: puts the best candidates in another order, and first; the rest stay in theirs. As
        many are looked at as it says, also where k is fewer.
    naming: orders the candidates by the reranker's score, or without one the retriever's, and what
        their names are worth besides; those that were not reranked stay behind. 64 are looked at,
        also where k is fewer.
    only: for each mention what its search is confined to, if it is.
    groups: int [n], the group of each mention. Those of a group are to have the same surface and
        ``only``; they get one answer, by the means of their scores.
    """
    vectors = retriever.mention_vectors(mentions)
    depth = max(k, reranking.top if reranking else 0, CANDIDATES if naming else 0)
    if groups is None:
        found = _found(index, vectors, depth, only)
    else:
        found = _found_together(index, vectors, depth, only, groups)
    best = found.scores[:, 0].astype(np.float64)
    nil = np.zeros(len(best), dtype=bool) if nil_threshold is None else best < nil_threshold
    again = named = None
    if reranking is not None:
        found, again = _reranked(found, mentions, reranking, groups)
    decisive = _ranking_scores(found.scores, again)
    if naming is not None:
        named = names_match(naming.kb, mentions, found.numbers)
        decisive = decisive + naming.weight * named
        order = np.argsort(-decisive, axis=1, kind="stable")
        found = Candidates(*_in_order(order, *found))
        again = again if again is None else _in_order(order, again)[0]
        named, decisive = _in_order(order, named, decisive)
    best = decisive[:, 0].astype(np.float64)
    probabilities = None if calibration is None else calibration.probabilities(best)
    cut = [x if x is None else x[:, :k] for x in (*found, again, named)]
    return Links(cut[0], cut[1], nil, probabilities, cut[2], cut[3])


def _ranking_scores(scores: np.ndarray, again: np.ndarray | None) -> np.ndarray:
    return scores if again is None else np.where(np.isnan(again), -np.inf, again)


def names_match(
    kb: KnowledgeBase, mentions: Sequence[MentionInContext], numbers: np.ndarray
) -> np.ndarray:
    """bool [n, k]: whether each mention is a name of each of its candidates, int64 [n, k].

    Each distinct mention is looked up once.
    """
    surfaces = [text[start:end] for text, start, end in mentions]
    entities = {surface: kb.numbers_named(surface) for surface in dict.fromkeys(surfaces)}
    matches = [np.isin(row, entities[surface]) for surface, row in zip(surfaces, numbers)]
    return np.array(matches).reshape(numbers.shape)


def _found(
    index: Searchable,
    vectors: np.ndarray,
    k: int,
    only: Sequence[SearchFilter | None] | None,
) -> Candidates:
    """The k nearest entities of each vector, each within its own limits."""
    if only is None:
        return index.search(vectors, k)
    numbers = np.empty((len(vectors), k), dtype=np.int64)
    scores = np.empty((len(vectors), k), dtype=np.float32)
    for limits in dict.fromkeys(only):
        places = [place for place, own in enumerate(only) if own == limits]
        numbers[places], scores[places] = index.search(vectors[places], k, limits)
    return Candidates(numbers, scores)


def _found_together(
    index: Searchable,
    vectors: np.ndarray,
    k: int,
    only: Sequence[SearchFilter | None] | None,
    groups: np.ndarray,
) -> Candidates:
    """As ``_found``, but each group is searched once, by the mean of its vectors: what is found for
    it is scored by the mean of the scores that the mentions give it."""
    _, first, members = np.unique(groups, return_index=True, return_inverse=True)
    limits = only if only is None else [only[mention] for mention in first]
    found = _found(index, _group_means(vectors, groups)[first], k, limits)
    return Candidates(found.numbers[members], found.scores[members])


def _group_means(rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """For each row the mean of those of its group."""
    _, members, counts = np.unique(groups, return_inverse=True, return_counts=True)
    together = rows[np.argsort(members, kind="stable")]
    sums = np.add.reduceat(together, counts.cumsum() - counts, dtype=np.float64)
    return (sums / counts[:, None]).astype(rows.dtype)[members]


def _in_order(order: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
    return [np.take_along_axis(array, order, axis=1) for array in arrays]


def _reranked(
    found: Candidates,
    mentions: Sequence[MentionInContext],
    reranking: Reranking,
    groups: np.ndarray | None,
) -> tuple[Candidates, np.ndarray]:
    """The candidates in their new order, and their rerank scores in it; equal ones go by id.

    Mentions of a group, if there are groups, have the same candidates.
    """
    reranker, kb, top, weight = reranking
    numbers = found.numbers[:, :top]
    scores = np.full(found.scores.shape, np.nan, dtype=np.float32)
    again = reranker.scores(mentions, numbers, found.scores[:, :top], kb, weight)
    if groups is not None:
        again = _group_means(again, groups)
    scores[:, :top] = log_softmax(again)
    distinct = np.unique(numbers[numbers >= 0]).tolist()
    ids = {number: id for number, (id, _) in zip(distinct, kb.labels(distinct))}
    order = np.tile(np.arange(found.scores.shape[1]), (len(scores), 1))
    for places, row, candidates in zip(order, scores, numbers):
        keys = [(-row[i], ids[n]) for i, n in enumerate(candidates.tolist()) if n >= 0]
        places[: len(keys)] = sorted(range(len(keys)), key=keys.__getitem__)
    numbers, cosines, scores = _in_order(order, *found, scores)
    return Candidates(numbers, cosines), np.where(numbers < 0, np.float32(np.nan), scores)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Of each row [n, k]; -inf, for no candidate, stays -inf."""
    best = scores.max(axis=1, keepdims=True, initial=np.finfo(np.float32).min)
    total = np.exp(scores - best).sum(axis=1, keepdims=True)
    return scores - best - np.log(np.maximum(total, np.finfo(np.float32).tiny))
