"""Link mentions to entities. The pipeline and evaluation share this path."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ..kb.corrections import Decision
from ..kb.knowledge_base import KnowledgeBase, SearchFilter
from ..kb.mentions import KnownMentions
from ..kb.vectors.index import Candidates
from ..models.architectures import Retriever
from ..text.mention_inputs import MentionInContext
from .nil import NilPolicy, is_nil
from .ordering import (
    Evidence,
    Ordered,
    RankingInput,
    Reranking,
    group_means,
    reranked_candidates,
    with_owners,
)
from .ranking import TOP

# The minimum number of candidates to search where exact names or a ranking decide.
SEARCH_DEPTH = 16
_N_EXPLAINED = 8  # the candidates of a mention with ``Links.mention_rows``

Ordering = Callable[[RankingInput], Ordered]  # orders candidates


class SearchIndex(Protocol):
    """A KB, or an index that searches like a KB."""

    def search(
        self, queries: np.ndarray, k: int, filter: SearchFilter | None = None, /
    ) -> Candidates:
        """Return the k nearest entities of each query, float32 [n, d], best first."""


class Links(NamedTuple):
    """The links of n mentions with k candidates each."""

    numbers: (
        np.ndarray
    )  # int64 [n, k], the entity numbers of the candidates, best first; -1 for none
    scores: np.ndarray  # float32 [n, k], the retriever's scores; -inf for no candidate
    nil: np.ndarray  # bool [n], whether the KB lacks the mention's entity (``linking.nil``)
    # float32 [n], compared with the NIL threshold: the retriever's best score, or with a ranking the
    # probability that a candidate is correct; -inf without a candidate.
    nil_score: np.ndarray
    vectors: np.ndarray  # float32 [n, d], of the mentions
    # float32 [n, k], the logarithm of a candidate's probability among those reranked; NaN for the others.
    # None without a reranker.
    rerank_scores: np.ndarray | None = None
    # float32 [n, k], the probability that a candidate is correct; NaN for those that the ranking does not
    # read. None without a ranking.
    probabilities: np.ndarray | None = None
    # int64 [n, k], for the first candidates the row of the nearest learnt mention
    # (``KnownMentions.nearest_of``), -1 for none. None without learnt mentions.
    mention_rows: np.ndarray | None = None
    evidence: Evidence | None = None  # about the first candidates; None without a ranking
    # The decision of a person about each mention, or None (``linking.apply_corrections``). None: there are no
    # decisions about these mentions.
    decisions: Sequence[Decision | None] | None = None


@dataclass(frozen=True)
class LinkOptions:
    """The options of ``link`` beside the search."""

    # A mention with a lower ``Links.nil_score`` is NIL. None: no mention is NIL.
    nil_threshold: float | None = None
    nil_policy: NilPolicy | None = None  # keeps mentions from being NIL; None: none
    # Orders the best ``top`` candidates again, even if fewer are asked for. They come first, and the others
    # stay in their order.
    reranking: Reranking | None = None
    # Orders at least SEARCH_DEPTH candidates after that. None: the order stays.
    ordering: Ordering | None = None
    # Entities that have a mention as a name in this KB are candidates, too (``with_owners``). None: only the
    # nearest are.
    named_in: KnowledgeBase | None = None
    # The filter of each mention's search, or None for no filter.
    filters: Sequence[SearchFilter | None] | None = None
    # Int [n], the group of each mention. The mentions of a group, which must have the same surface and
    # filter, get the same candidates with the means of their scores.
    groups: np.ndarray | None = None
    # The learnt mentions of the KB, of which the nearest are returned.
    known: KnownMentions | None = None


def link(
    retriever: Retriever,
    index: SearchIndex,
    mentions: Sequence[MentionInContext],
    k: int,
    options: LinkOptions = LinkOptions(),
) -> Links:
    """Find the k best entities of each mention, and decide whether it is NIL.

    Args:
        retriever: Encodes the mentions.
        index: The KB or the index to search.
        mentions: The n mentions.
        k: The number of candidates of each mention.
        options: What follows the search, such as reranking and the NIL decision.

    Raises:
        PelError: The reranker gives scores that are not finite.
    """
    depth = max(k, SEARCH_DEPTH if options.ordering else 0)
    vectors = retriever.predict(mentions)
    given, nil_score = ranking_input(index, mentions, vectors, depth, options)
    candidates, rerank_scores = given.candidates, given.rerank_scores
    probabilities = evidence = None
    if options.ordering is not None:
        order, probabilities, in_kb, evidence = options.ordering(given)
        candidates = Candidates(*(np.take_along_axis(column, order, 1) for column in candidates))
        if rerank_scores is not None:
            rerank_scores = np.take_along_axis(rerank_scores, order, axis=1)
        if in_kb is not None:
            nil_score = np.where(np.isfinite(nil_score), in_kb, nil_score)
    nil = is_nil(nil_score, options.nil_threshold)
    if options.nil_policy is not None:
        nil = options.nil_policy.decided(nil, mentions, candidates.numbers[:, 0], probabilities)
    numbers, mention_rows = candidates.numbers[:, :k], None
    if options.known:
        mention_rows = np.full(numbers.shape, -1, dtype=np.int64)
        nearest_rows = options.known.nearest_of(vectors, numbers[:, :_N_EXPLAINED])
        mention_rows[:, :_N_EXPLAINED] = nearest_rows
    return Links(
        numbers,
        candidates.scores[:, :k],
        nil,
        nil_score,
        vectors,
        None if rerank_scores is None else rerank_scores[:, :k],
        None if probabilities is None else probabilities[:, :k],
        mention_rows,
        evidence,
    )


def ranking_input(
    index: SearchIndex,
    mentions: Sequence[MentionInContext],
    vectors: np.ndarray,
    k: int,
    options: LinkOptions,
) -> tuple[RankingInput, np.ndarray]:
    """Find at least k candidates of each mention, and rerank them.

    Returns:
        The candidates, and the retriever's best score of each mention, float32 [n].
    """
    reranking, groups = options.reranking, options.groups
    depth = max(k, reranking.top if reranking else 0)
    candidates = nearest(index, vectors, depth, options.filters, groups)
    best_scores, rerank_scores = candidates.scores[:, 0], None
    if (kb := options.named_in) is not None:
        candidates = with_owners(kb, mentions, vectors, candidates, TOP, options.filters)
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
    """Return the k nearest entities of each vector, best first.

    Vectors with the same filter share a search. A group has one search, with the mean of its vectors and the
    filter of its first member. The scores of the mean vector are the means of the members' scores.

    Args:
        index: The KB or the index to search.
        vectors: float32 [n, d], of the mentions.
        k: The number of entities.
        filters: As ``LinkOptions.filters``.
        groups: As ``LinkOptions.groups``.
    """
    if groups is not None:
        _, first, members = np.unique(groups, return_index=True, return_inverse=True)
        group_filters = filters and [filters[mention] for mention in first.tolist()]
        candidates = nearest(index, group_means(vectors, groups)[first], k, group_filters)
        return Candidates(candidates.numbers[members], candidates.scores[members])
    if not filters:
        return index.search(vectors, k)
    numbers = np.empty((len(vectors), k), dtype=np.int64)
    scores = np.empty((len(vectors), k), dtype=np.float32)
    for filter in dict.fromkeys(filters):
        places = [place for place, other in enumerate(filters) if other == filter]
        numbers[places], scores[places] = index.search(vectors[places], k, filter)
    return Candidates(numbers, scores)
