"""The one way from mentions to linked entities, for the pipeline and for evaluation."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..kb.corrections import Decision
from ..kb.knowledge_base import KnowledgeBase, SearchFilter
from ..kb.mentions import KnownMentions
from ..kb.vectors.index import Candidates
from ..text.mention_inputs import MentionInContext
from .nil import NilPolicy, is_nil
from .ordering import Evidence, Ordered, RankingInput, Reranking, group_means, reranked_candidates
from .retriever import Retriever

# The number of candidates searched for a mention, at least, where exact names count and in
# evaluations. It is the same in both, so that what is evaluated is what is linked.
SEARCH_DEPTH = 64
# The candidates of a mention for which it is told by which learnt mention they were found.
_EXPLAINED = 8


# Orders the candidates that were found.
Ordering = Callable[[RankingInput], Ordered]


class Links(NamedTuple):
    """What linking says of n mentions."""

    # int64 [n, k], the entity numbers of the candidates, best first; -1 for none
    numbers: np.ndarray
    scores: np.ndarray  # float32 [n, k], the retriever's scores; -inf for no candidate
    nil: np.ndarray  # bool [n], whether the KB lacks the mention's entity (``linking.nil``)
    # float32 [n], what the NIL threshold is compared with: the retriever's best score, or with a
    # ranking the probability that a candidate is right; -inf without a candidate.
    nil_score: np.ndarray
    # float32 [n, k], the logarithm of each candidate's probability among those reranked, NaN for the
    # others. None without a reranker.
    rerank_scores: np.ndarray | None = None
    # float32 [n, k], the probability that each candidate is right, NaN for those that the ranking did
    # not look at. None without a ranking.
    probabilities: np.ndarray | None = None
    vectors: np.ndarray | None = None  # float32 [n, d], of the mentions
    # int64 [n, k], for the first candidates the row of the learnt mention that is nearest
    # (``KnownMentions.nearest_of``), -1 for none. None if no mentions were given.
    mention_rows: np.ndarray | None = None
    # What the decision rests on, of the first candidates alone. None without a ranking.
    evidence: Evidence | None = None
    # Of each mention what a person decided about it, or None (``linking.corrections``). None: nothing
    # was decided about any.
    decisions: Sequence[Decision | None] | None = None


def link(
    retriever: Retriever,
    index: KnowledgeBase,
    mentions: Sequence[MentionInContext],
    k: int,
    *,
    nil_threshold: float | None = None,
    nil_policy: NilPolicy | None = None,
    reranking: Reranking | None = None,
    ordering: Ordering | None = None,
    filters: Sequence[SearchFilter | None] | None = None,
    groups: np.ndarray | None = None,
    known: KnownMentions | None = None,
) -> Links:
    """Find the k best entities of each mention, and decide whether it is NIL.

    Args:
        retriever: Encodes the mentions.
        index: The KB, or what searches as it does, such as an index in memory.
        mentions: The n mentions.
        k: The number of candidates returned for each mention.
        nil_threshold: A mention whose ``Links.nil_score`` is below it is NIL. None: no mention is NIL
            (``linking.nil``).
        nil_policy: What else keeps a mention from being NIL; None: nothing.
        reranking: Orders the best candidates again. They come first, the others stay in their
            order. It looks at its ``top`` candidates even if k is smaller.
        ordering: Orders the candidates after that: a learnt ranking, or what names say. It looks at
            64 candidates even if k is smaller. None: the order stays.
        filters: For each mention the filter of its search, or None for no filter.
        groups: int [n], the group of each mention. The mentions of a group, which must have the
            same surface and filter, get one answer: each candidate gets the mean of its scores.
        known: The mentions that the KB has learnt, to say by which of them candidates were found.

    Raises:
        PelError: The reranker gives scores that are not finite.
    """
    vectors = retriever.mention_vectors(mentions)
    depth = max(k, reranking.top if reranking else 0, SEARCH_DEPTH if ordering else 0)
    found = nearest(index, vectors, depth, filters, groups)
    nil_score = found.scores[:, 0]
    rerank_scores = probabilities = rows = evidence = None
    if reranking is not None:
        found, rerank_scores = reranked_candidates(found, mentions, reranking, groups)
    if ordering is not None:
        looked_at = RankingInput(mentions, found, rerank_scores, groups, vectors)
        order, probabilities, in_kb, evidence = ordering(looked_at)
        found = Candidates(*(np.take_along_axis(column, order, axis=1) for column in found))
        if rerank_scores is not None:
            rerank_scores = np.take_along_axis(rerank_scores, order, axis=1)
        if in_kb is not None:
            nil_score = np.where(np.isfinite(nil_score), in_kb, nil_score)
    nil = is_nil(nil_score, nil_threshold)
    if nil_policy is not None:
        nil = nil_policy.decided(nil, mentions, found.numbers[:, 0], probabilities)
    numbers = found.numbers[:, :k]
    if known:
        rows = np.full(numbers.shape, -1, dtype=np.int64)
        rows[:, :_EXPLAINED] = known.nearest_of(vectors, numbers[:, :_EXPLAINED])
    return Links(
        numbers,
        found.scores[:, :k],
        nil,
        nil_score,
        None if rerank_scores is None else rerank_scores[:, :k],
        None if probabilities is None else probabilities[:, :k],
        vectors,
        rows,
        evidence,
    )


def nearest(
    index: KnowledgeBase,
    vectors: np.ndarray,
    k: int,
    filters: Sequence[SearchFilter | None] | None = None,
    groups: np.ndarray | None = None,
) -> Candidates:
    """Search the k nearest entities of each vector, float32 [n, d], best first; see ``link``.

    Vectors of the same filter are searched together. A group is searched once, with the mean of its
    vectors and the filter of its first member. The scores of the mean vector are the means of the
    members' scores.
    """
    if groups is not None:
        _, first, members = np.unique(groups, return_index=True, return_inverse=True)
        of_groups = filters and [filters[mention] for mention in first]
        found = nearest(index, group_means(vectors, groups)[first], k, of_groups)
        return Candidates(found.numbers[members], found.scores[members])
    if not filters:
        return index.search(vectors, k)
    numbers = np.empty((len(vectors), k), dtype=np.int64)
    scores = np.empty((len(vectors), k), dtype=np.float32)
    for own in dict.fromkeys(filters):
        places = [place for place, other in enumerate(filters) if other == own]
        numbers[places], scores[places] = index.search(vectors[places], k, own)
    return Candidates(numbers, scores)
