"""The one way from mentions to linked entities, for the pipeline and for evaluation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ..kb.corrections import Decision
from ..kb.knowledge_base import SearchFilter
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


class SearchIndex(Protocol):
    """A KB, or what searches as it does, such as an index in memory."""

    def search(
        self, queries: np.ndarray, k: int, filter: SearchFilter | None = None, /
    ) -> Candidates:
        """Search the k nearest entities of each query, float32 [n, d], best first."""


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


@dataclass(frozen=True)
class LinkOptions:
    """What linking does beside the search, and how searches are confined."""

    # A mention whose ``Links.nil_score`` is below it is NIL. None: no mention is (``linking.nil``).
    nil_threshold: float | None = None
    nil_policy: NilPolicy | None = None  # what keeps a mention from being NIL; None: nothing
    # Orders the best candidates again. They come first, the others stay in their order. It reranks its
    # ``top`` candidates even if fewer are asked for.
    reranking: Reranking | None = None
    # Orders the candidates after that: a learnt ranking, or what names say. It orders 64 candidates even
    # if fewer are asked for. None: the order stays.
    ordering: Ordering | None = None
    # For each mention the filter of its search, or None for no filter.
    filters: Sequence[SearchFilter | None] | None = None
    # int [n], the group of each mention. The mentions of a group, which must have the same surface and
    # filter, get one answer: each candidate gets the mean of its scores.
    groups: np.ndarray | None = None
    # The mentions that the KB has learnt, to say by which of them candidates were found.
    known: KnownMentions | None = None


def link(
    retriever: Retriever,
    index: SearchIndex,
    mentions: Sequence[MentionInContext],
    k: int,
    options: LinkOptions = LinkOptions(),
) -> Links:
    """Find the k best entities of each mention, and decide whether it is NIL.

    Raises:
        PelError: The reranker gives scores that are not finite.
    """
    depth = max(k, SEARCH_DEPTH if options.ordering else 0)
    found, nil_score = ranking_input(retriever, index, mentions, depth, options)
    candidates, rerank_scores = found.candidates, found.rerank_scores
    ordered = options.ordering(found) if options.ordering else None
    if ordered is not None:
        order = ordered.order
        candidates = Candidates(*(np.take_along_axis(column, order, 1) for column in candidates))
        if rerank_scores is not None:
            rerank_scores = np.take_along_axis(rerank_scores, order, axis=1)
        if ordered.in_kb is not None:
            nil_score = np.where(np.isfinite(nil_score), ordered.in_kb, nil_score)
    probabilities = ordered.probabilities if ordered else None
    nil = is_nil(nil_score, options.nil_threshold)
    if options.nil_policy is not None:
        nil = options.nil_policy.decided(nil, mentions, candidates.numbers[:, 0], probabilities)
    numbers, mention_rows = candidates.numbers[:, :k], None
    if options.known:
        mention_rows = np.full(numbers.shape, -1, dtype=np.int64)
        nearest_rows = options.known.nearest_of(found.vectors, numbers[:, :_EXPLAINED])
        mention_rows[:, :_EXPLAINED] = nearest_rows
    return Links(
        numbers,
        candidates.scores[:, :k],
        nil,
        nil_score,
        None if rerank_scores is None else rerank_scores[:, :k],
        None if probabilities is None else probabilities[:, :k],
        found.vectors,
        mention_rows,
        ordered.evidence if ordered else None,
    )


def ranking_input(
    retriever: Retriever,
    index: SearchIndex,
    mentions: Sequence[MentionInContext],
    k: int,
    options: LinkOptions,
) -> tuple[RankingInput, np.ndarray]:
    """Search the k best candidates of each mention, or more if they are reranked, and rerank them.

    Returns:
        The candidates, and the retriever's best scores, float32 [n].
    """
    reranking, groups = options.reranking, options.groups
    vectors = retriever.mention_vectors(mentions)
    depth = max(k, reranking.top if reranking else 0)
    candidates = nearest(index, vectors, depth, options.filters, groups)
    best_scores, rerank_scores = candidates.scores[:, 0], None
    if reranking is not None:
        candidates, rerank_scores = reranked_candidates(candidates, mentions, reranking, groups)
    return RankingInput(mentions, candidates, rerank_scores, groups, vectors), best_scores


def nearest(
    index: SearchIndex,
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
