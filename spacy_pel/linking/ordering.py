"""What orders the candidates that were found: exact names, and a reranker's second look.

A name is exact if it equals the mention, ignoring case, blanks and punctuation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..kb.vectors.index import Candidates
from ..text.mention_inputs import MentionInContext

if TYPE_CHECKING:
    from .reranker import Reranker

# The largest number of letters of an acronym.
_ACRONYM = 5


class Reranking(NamedTuple):
    """How candidates are reranked."""

    reranker: Reranker  # the cross-encoder
    kb: KnowledgeBase  # where the candidates' texts are
    top: int  # the number of candidates of each mention that are reranked, from the best


class RankingInput(NamedTuple):
    """What an ordering looks at."""

    mentions: Sequence[MentionInContext]
    # Those of the mentions, [n, k], best first by the retriever, or by the reranker.
    candidates: Candidates
    rerank_scores: np.ndarray | None = None  # as ``Links.rerank_scores``
    groups: np.ndarray | None = None  # int [n], the group of each mention, as of ``link``
    # float32 [n, d], the vectors of the mentions; None if they are not to be looked at.
    vectors: np.ndarray | None = None


class Evidence(NamedTuple):
    """What the decision about the first t candidates of n mentions rests on, in their order, [n, t]."""

    names: Sequence[
        Sequence[str]
    ]  # the name that is most similar to the mention; "" for no candidate
    similarity: (
        np.ndarray
    )  # float, Dice's coefficient of the trigrams of that name and the mention, 0 to 1
    exact: np.ndarray  # bool, whether the mention is a name of the candidate
    owners: np.ndarray  # int, how many entities have the mention as a name
    texts: np.ndarray  # int, how many texts define the mention as the candidate
    all_texts: np.ndarray  # int, how many texts define it
    elsewhere: np.ndarray  # int, how many other mentions of the document seem to mean the candidate

    def in_order(self, order: np.ndarray) -> Evidence:
        """The same in another order, int64 [n, t]: the places of the candidates in it."""
        names = [[own[place] for place in row] for own, row in zip(self.names, order.tolist())]
        return Evidence(names, *(np.take_along_axis(own, order, axis=1) for own in self[1:]))


class Ordered(NamedTuple):
    """What names, or a learnt ranking, say of the candidates of n mentions."""

    order: np.ndarray  # int64 [n, k], the places of the candidates in their new order
    # float32 [n, k], the probability of each candidate, in the new order; NaN for one that was not
    # looked at. None if nothing was fitted.
    probabilities: np.ndarray | None = None
    # float32 [n], the probability that a candidate is right, which decides about NIL. None: the
    # retriever's score decides.
    in_kb: np.ndarray | None = None
    evidence: Evidence | None = None  # of the candidates that were looked at, in the new order


def unambiguous_names_first(kb: KnowledgeBase, found: RankingInput) -> Ordered:
    """The entity that alone has the mention as a name first, then the others as they were.

    It orders candidates where nothing was fitted. Of mentions in abstracts that a knowledge base calls
    by one name alone, 97 to 98 % mean its owner. Of acronyms fewer do, so for these the context
    decides, as for names with several owners.
    """
    owns = unambiguous_owners(kb, found.mentions, found.candidates.numbers)
    return Ordered(np.argsort(~owns, kind="stable"))


def unambiguous_owners(
    kb: KnowledgeBase, mentions: Sequence[MentionInContext], numbers: np.ndarray
) -> np.ndarray:
    """Tell which candidates of n mentions alone have the mention as a name, bool [n, k].

    ``numbers``, int64 [n, k], are those of the candidates in the KB; -1 for no candidate. Each name
    is looked up once.
    """
    owners = {surface: unambiguous_owner(kb, surface) for surface in {m.surface for m in mentions}}
    # No number equals None.
    matches = [row == owners[mention.surface] for mention, row in zip(mentions, numbers)]
    return np.array(matches, dtype=bool).reshape(numbers.shape)


def unambiguous_owner(kb: KnowledgeBase, name: str) -> int | None:
    """The number of the one entity that has a name; None if none has it, or several have.

    An acronym has no sole owner: that the knowledge base knows one meaning does not make it right.
    """
    owners = [] if is_acronym(name) else kb.numbers_named(name)
    return int(owners[0]) if len(owners) == 1 else None


def is_acronym(text: str) -> bool:
    """Whether a text is one word of at most five letters, two of them capitals at least."""
    letters = [character for character in text if character.isalpha()]
    return (
        len(letters) <= _ACRONYM and sum(map(str.isupper, letters)) >= 2 and len(text.split()) == 1
    )


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
    candidates = Candidates(*(np.take_along_axis(column, order, axis=1) for column in found))
    rerank_scores = np.take_along_axis(rerank_scores, order, axis=1)
    return candidates, np.where(candidates.numbers < 0, np.float32(np.nan), rerank_scores)


def group_means(rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Each of the rows [n, ...] replaced by the mean, summed in float64, of its group's, int [n]."""
    _, members, counts = np.unique(groups, return_inverse=True, return_counts=True)
    together = rows[np.argsort(members, kind="stable")]
    sums = np.add.reduceat(together, counts.cumsum() - counts, dtype=np.float64)
    return (sums / counts[:, None]).astype(rows.dtype)[members]


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Each row of scores [n, k] as logarithms of probabilities; -inf, for no candidate, stays."""
    best = scores.max(axis=1, keepdims=True, initial=np.finfo(np.float32).min)
    total = np.exp(scores - best).sum(axis=1, keepdims=True)
    return scores - best - np.log(np.maximum(total, np.finfo(np.float32).tiny))
