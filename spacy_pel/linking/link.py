"""The one way from mentions to linked entities, for the pipeline and for evaluation.

Mentions are encoded, their candidates searched, reranked and ordered, and NIL is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..kb.knowledge_base import SearchFilter
from ..kb.mentions import KnownMentions
from ..kb.vectors.index import Candidates
from ..reading.mention import MentionInContext
from .calibration import Calibration, margins
from .exact_names import ExactNameBonus, SoleOwnersFirst, exact_name_matches, sole_owners
from .nil import Sure, is_nil
from .reranking import Reranking, group_means, in_order, reranked_candidates
from .retriever import Retriever

# The number of candidates searched for a mention, at least, where exact names count and in
# evaluations. It is the same in both, so that what is evaluated is what is linked.
SEARCH_DEPTH = 64
# The candidates of a mention for which it is told by which learnt mention they were found.
_EXPLAINED = 8


class Searchable(Protocol):
    """A knowledge base, or an index in memory."""

    def search(
        self, vectors: np.ndarray, k: int, only: SearchFilter | None = None
    ) -> Candidates: ...


class Links(NamedTuple):
    """What linking says of n mentions.

    Attributes:
        numbers: int64 [n, k], the entity numbers of the candidates, best first; -1 where there are
            fewer than k.
        scores: float32 [n, k], the retriever's scores; -inf for no candidate.
        nil: bool [n], whether the KB lacks the mention's entity (``linking.nil``).
        probabilities: float64 [n], the probability that the best candidate is right; None without
            a calibration.
        rerank_scores: float32 [n, k], the logarithm of each candidate's probability among those
            reranked; NaN for the others. None without a reranker.
        named: bool [n, k], whether the mention is a name of the candidate; None without an
            ``ExactNameBonus``.
        vectors: float32 [n, d], the vectors of the mentions.
        mention_rows: int64 [n, k], for the first candidates the row of the learnt mention that is
            nearest (``KnownMentions.nearest_of``); -1 for none. None if no mentions were given.
    """

    numbers: np.ndarray
    scores: np.ndarray
    nil: np.ndarray
    probabilities: np.ndarray | None
    rerank_scores: np.ndarray | None = None
    named: np.ndarray | None = None
    vectors: np.ndarray | None = None
    mention_rows: np.ndarray | None = None

    @property
    def ranking_scores(self) -> np.ndarray:
        """Float [n, k]: the scores that order the candidates, before any bonus for exact names.

        They are the reranker's scores, with -inf for a candidate that was not reranked. Without
        reranking they are the retriever's.
        """
        return _ranking_scores(self.scores, self.rerank_scores)


def link(
    retriever: Retriever,
    index: Searchable,
    mentions: Sequence[MentionInContext],
    k: int,
    *,
    nil_threshold: float | None = None,
    sure: Sure | None = None,
    calibration: Calibration | None = None,
    reranking: Reranking | None = None,
    exact_names: ExactNameBonus | SoleOwnersFirst | None = None,
    filters: Sequence[SearchFilter | None] | None = None,
    groups: np.ndarray | None = None,
    known: KnownMentions | None = None,
) -> Links:
    """Find the k best entities of each mention, and decide whether it is NIL.

    Args:
        retriever: Encodes the mentions.
        index: What is searched: the KB, or an index in memory.
        mentions: The n mentions.
        k: The number of candidates returned for each mention.
        nil_threshold: A mention whose best score by the retriever is below it is NIL. None: no
            mention is NIL (``linking.nil``).
        sure: What keeps a mention from being NIL, whatever its score; None: nothing.
        calibration: Gives the probability of the best candidate.
        reranking: Orders the best candidates again. They come first, the others stay in their
            order. It looks at its ``top`` candidates even if k is smaller.
        exact_names: What a name that is exactly the mention changes in the order of candidates. It
            looks at 64 candidates even if k is smaller. A bonus is added to the score that orders
            them: the reranker's, or without one the retriever's. Candidates that were not reranked
            stay behind.
        filters: For each mention the filter of its search, or None for no filter.
        groups: int [n], the group of each mention. The mentions of a group, which must have the
            same surface and filter, get one answer: each candidate gets the mean of its scores.
        known: The mentions that the KB has learnt, to say by which of them candidates were found.

    Raises:
        PelError: The reranker gives scores that are not finite.
    """
    vectors = retriever.mention_vectors(mentions)
    depth = max(
        k,
        2 if calibration else 0,  # for the margin
        reranking.top if reranking else 0,
        SEARCH_DEPTH if exact_names else 0,
    )
    found = nearest(index, vectors, depth, filters, groups)
    best = found.scores[:, 0]
    rerank_scores = named = probabilities = rows = None
    if reranking is not None:
        found, rerank_scores = reranked_candidates(found, mentions, reranking, groups)
    ranking_scores = _ranking_scores(found.scores, rerank_scores)
    if exact_names is not None:
        if isinstance(exact_names, SoleOwnersFirst):
            order = np.argsort(~sole_owners(exact_names.kb, mentions, found.numbers), kind="stable")
        else:
            named = exact_name_matches(exact_names.kb, mentions, found.numbers)
            ranking_scores = ranking_scores + exact_names.weight * named
            order = np.argsort(-ranking_scores, kind="stable")
            (named,) = in_order(order, named)
        *found, ranking_scores = in_order(order, *found, ranking_scores)
        found = Candidates(*found)
        if rerank_scores is not None:
            (rerank_scores,) = in_order(order, rerank_scores)
    if calibration is not None:
        probabilities = calibration.probabilities(ranking_scores[:, 0], margins(ranking_scores))
    nil = is_nil(best, nil_threshold)
    doubtful = np.flatnonzero(nil) if sure else ()
    if len(doubtful):  # names are looked up for these alone: they are few
        is_sure = sure.of(
            [mentions[i] for i in doubtful],
            found.numbers[doubtful, 0],
            None if probabilities is None else probabilities[doubtful],
        )
        nil[doubtful] = is_nil(best[doubtful], nil_threshold, is_sure)
    numbers = found.numbers[:, :k]
    if known:
        rows = np.full(numbers.shape, -1, dtype=np.int64)
        rows[:, :_EXPLAINED] = known.nearest_of(vectors, numbers[:, :_EXPLAINED])
    return Links(
        numbers,
        found.scores[:, :k],
        nil,
        probabilities,
        None if rerank_scores is None else rerank_scores[:, :k],
        None if named is None else named[:, :k],
        vectors,
        rows,
    )


def nearest(
    index: Searchable,
    vectors: np.ndarray,
    k: int,
    filters: Sequence[SearchFilter | None] | None = None,
    groups: np.ndarray | None = None,
) -> Candidates:
    """Search the k nearest entities of each vector, best first.

    Args:
        index: What is searched.
        vectors: float32 [n, d].
        k: The number of candidates.
        filters: For each vector the filter of its search, or None for no filter. Vectors of the
            same filter are searched together.
        groups: int [n], the group of each vector. A group is searched once, with the mean of its
            vectors and the filter of its first member. The scores of the mean vector are the means
            of the members' scores.
    """
    if groups is not None:
        _, first, members = np.unique(groups, return_index=True, return_inverse=True)
        of_groups = None if filters is None else [filters[mention] for mention in first]
        found = nearest(index, group_means(vectors, groups)[first], k, of_groups)
        return Candidates(found.numbers[members], found.scores[members])
    if filters is None:
        return index.search(vectors, k)
    numbers = np.empty((len(vectors), k), dtype=np.int64)
    scores = np.empty((len(vectors), k), dtype=np.float32)
    for own in dict.fromkeys(filters):
        places = [place for place, other in enumerate(filters) if other == own]
        numbers[places], scores[places] = index.search(vectors[places], k, own)
    return Candidates(numbers, scores)


def without_candidates(links: Links, rows: np.ndarray, nil_threshold: float | None) -> Links:
    """The links, in which some of the n mentions, bool [n], have no candidate.

    ``nil_threshold`` is the threshold that the links were made with.
    """
    without = rows[:, None]
    scores = np.where(without, np.float32(-np.inf), links.scores)
    again, named, rows_of = links.rerank_scores, links.named, links.mention_rows
    return links._replace(
        numbers=np.where(without, -1, links.numbers),
        scores=scores,
        nil=np.where(rows, is_nil(scores[:, 0], nil_threshold), links.nil),
        rerank_scores=None if again is None else np.where(without, np.float32(np.nan), again),
        named=None if named is None else named & ~without,
        mention_rows=None if rows_of is None else np.where(without, -1, rows_of),
    )


def _ranking_scores(scores: np.ndarray, rerank_scores: np.ndarray | None) -> np.ndarray:
    if rerank_scores is None:
        return scores
    return np.where(np.isnan(rerank_scores), -np.inf, rerank_scores)
