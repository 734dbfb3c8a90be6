"""The order of candidates by exact names and by a reranker.

A name is exact if it equals the mention, ignoring case, blanks and punctuation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..kb.knowledge_base import OTHER_SENSE, KnowledgeBase, SearchFilter
from ..kb.vectors.index import Candidates
from ..text.mention_inputs import MentionInContext

if TYPE_CHECKING:
    from .reranker import Reranker

MAX_ACRONYM_LETTERS = 5
MAX_OWNERS = 4  # of a name, which are added to the candidates


class Reranking(NamedTuple):
    """The settings of reranking."""

    reranker: Reranker
    kb: KnowledgeBase  # has the texts of the candidates
    top: int  # the number of candidates of each mention that are reranked, from the best


class RankingInput(NamedTuple):
    """The input of an ordering for n mentions."""

    mentions: Sequence[MentionInContext]
    candidates: Candidates  # [n, k], best first by the retriever, or by the reranker
    rerank_scores: np.ndarray | None = None  # as ``Links.rerank_scores``
    groups: np.ndarray | None = None  # int [n], as ``LinkOptions.groups``
    vectors: np.ndarray | None = None  # float32 [n, d], of the mentions; None: not used


class Evidence(NamedTuple):
    """The facts about the first t candidates of n mentions, in their order, [n, t]."""

    # The name that is most similar to the mention; "" for no candidate.
    names: Sequence[Sequence[str]]
    # Float, Dice's coefficient of the trigrams of that name and of the mention, 0 to 1.
    similarity: np.ndarray
    exact: np.ndarray  # bool, whether the mention is a name of the candidate
    owners: np.ndarray  # int, the number of entities that have the mention as a name
    texts: np.ndarray  # int, the number of texts that define the mention as the candidate
    all_texts: np.ndarray  # int, the number of texts that define the mention
    # Int, the number of other mentions of the document that seem to mean the candidate.
    elsewhere: np.ndarray

    def in_order(self, order: np.ndarray) -> Evidence:
        """Return the evidence in another order: int64 [n, t], the places of the candidates."""
        names = [[row[i] for i in places] for row, places in zip(self.names, order.tolist())]
        return Evidence(names, *(np.take_along_axis(facts, order, axis=1) for facts in self[1:]))


class Ordered(NamedTuple):
    """The order of the candidates of n mentions, by names or by a learnt ranking."""

    order: np.ndarray  # int64 [n, k], the places of the candidates in their new order
    # float32 [n, k], the probability of each candidate in the new order; NaN beyond those that the
    # ranking reads. None without a ranking.
    probabilities: np.ndarray | None = None
    # float32 [n], the probability that a candidate is correct, which decides NIL. None: the retriever's
    # score decides.
    in_kb: np.ndarray | None = None
    evidence: Evidence | None = (
        None  # about the candidates that the ranking reads, in the new order
    )


def with_owners(
    kb: KnowledgeBase,
    mentions: Sequence[MentionInContext],
    vectors: np.ndarray,
    candidates: Candidates,
    top: int,
    filters: Sequence[SearchFilter | None] | None = None,
) -> Candidates:
    """Add the entities that have a mention as a name to its first ``top`` candidates.

    The vectors of two names of an entity, such as "pulmonary" and "lung", may be far apart.

    Args:
        kb: The KB in which to look up names.
        mentions: The n mentions.
        vectors: float32 [n, d], the vectors of the mentions.
        candidates: [n, k], best first.
        top: The number of first candidates to complete.
        filters: The filter of each mention, or None for no filter.

    Returns:
        The candidates, [n, k]. A name of more than ``MAX_OWNERS`` entities adds none.
    """
    numbers, scores = candidates.numbers.copy(), candidates.scores.copy()
    top = min(top, numbers.shape[1])
    owners_of_all = kb.numbers_of_names([mention.surface for mention in mentions])
    first, filters = numbers[:, :top].tolist(), filters or [None] * len(mentions)
    allowed = {each: kb.allowed(each) for each in set(filters)}
    for place, (owners, only) in enumerate(zip(owners_of_all, filters)):
        if (mask := allowed[only]) is not None:
            owners = owners[mask[owners]]
        new = [number for number in owners.tolist() if number not in first[place]]
        if 0 < len(new) <= len(owners) <= MAX_OWNERS:
            lines = np.zeros(len(new), np.int64)
            new_scores = kb.vectors.name_scores(vectors[place : place + 1], lines, np.array(new))
            others = np.flatnonzero(~np.isin(numbers[place], new))
            for row, values in ((numbers[place], new), (scores[place], new_scores)):
                joined = np.insert(row[others], max(top - len(new), 0), values)
                row[:] = joined[: len(row)]
    return Candidates(numbers, scores)


def unambiguous_names_first(kb: KnowledgeBase, given: RankingInput) -> Ordered:
    """Put the sure owners of a mention's name first (``sure_owners``). Keep the order of the others.

    This is the order without a learnt ranking. Of mentions in abstracts that are a name of one entity
    alone, 97 to 98 % mean that entity. Of acronyms fewer do, so for these the context decides, as for
    names of several entities.
    """
    owns = sure_owners(kb, given.mentions, given.candidates.numbers)
    return Ordered(np.argsort(~owns, kind="stable"))


def sure_owners(
    kb: KnowledgeBase, mentions: Sequence[MentionInContext], numbers: np.ndarray
) -> np.ndarray:
    """Return which candidates are sure owners of the mention's name, bool [n, k].

    A sure owner is the only entity with the name. In a KB that knows word forms, as of ``pel start``, all
    owners are sure: its mentions are names that ``kb_matcher`` found, so one of the owners is meant. An
    acronym, or a name with a sense that is no entity, has no sure owner, because its meaning in the text may
    differ from that in the KB.

    ``numbers``, int64 [n, k], are the numbers of the candidates; -1 for none. Each name is looked up once.
    """
    surfaces = sorted(
        surface
        for surface in {mention.surface for mention in mentions}
        if not is_acronym(surface) and OTHER_SENSE not in kb.definitions(surface)
    )
    any_owner = bool(kb.settings.get("word_forms"))
    owners = {
        surface: of_name
        for surface, of_name in zip(surfaces, kb.numbers_of_names(surfaces))
        if any_owner or len(of_name) == 1
    }
    matches = [np.isin(row, owners.get(m.surface, ())) for m, row in zip(mentions, numbers)]
    return np.array(matches, dtype=bool).reshape(numbers.shape)


def unambiguous_owner(kb: KnowledgeBase, name: str) -> int | None:
    """Return the number of the only entity that has a name, or None. An acronym has none."""
    if is_acronym(name):
        return None
    owners = kb.numbers_named(name)
    return int(owners[0]) if len(owners) == 1 else None


def is_acronym(text: str) -> bool:
    """Tell whether a text is one word of at most five letters, at least two of them capitals."""
    letters = [character for character in text if character.isalpha()]
    n_capitals = sum(map(str.isupper, letters))
    return len(letters) <= MAX_ACRONYM_LETTERS and n_capitals >= 2 and len(text.split()) == 1


def reranked_candidates(
    candidates: Candidates,
    mentions: Sequence[MentionInContext],
    reranking: Reranking,
    groups: np.ndarray | None = None,
) -> tuple[Candidates, np.ndarray]:
    """Order the best candidates of each mention by rerank score, then by concept id.

    The other candidates follow in their previous order.

    Args:
        candidates: [n, k], best first.
        mentions: The n mentions.
        reranking: The reranker and its settings.
        groups: Int [n], the group of each mention. The mentions of a group have the same candidates, and
            each candidate gets the mean of its scores. None: each mention has its own scores.

    Returns:
        The candidates in their new order, and their rerank scores, float32 [n, k]: the logarithm of
        a candidate's probability among those reranked; NaN for the others.

    Raises:
        PelError: A score is NaN or infinite.
    """
    reranker, kb, top = reranking
    numbers = candidates.numbers[:, :top]
    scores = reranker.scores(mentions, numbers, candidates.scores[:, :top], kb)
    rerank_scores = np.full(candidates.scores.shape, np.nan, dtype=np.float32)
    rerank_scores[:, :top] = log_softmax(scores if groups is None else group_means(scores, groups))

    distinct = np.unique(numbers[numbers >= 0]).tolist()
    ids = {number: id for number, (id, _) in zip(distinct, kb.labels(distinct))}
    n, k = candidates.numbers.shape
    order = np.tile(np.arange(k), (n, 1))
    for places, row, row_numbers in zip(order, rerank_scores, numbers.tolist()):
        keys = [(-row[i], ids[number]) for i, number in enumerate(row_numbers) if number >= 0]
        places[: len(keys)] = sorted(range(len(keys)), key=keys.__getitem__)
    candidates = Candidates(*(np.take_along_axis(column, order, axis=1) for column in candidates))
    rerank_scores = np.take_along_axis(rerank_scores, order, axis=1)
    return candidates, np.where(candidates.numbers < 0, np.float32(np.nan), rerank_scores)


def group_means(rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Replace each row [n, d] by the mean of its group, int [n]. Sums are float64."""
    _, members, counts = np.unique(groups, return_inverse=True, return_counts=True)
    by_group = rows[np.argsort(members, kind="stable")]
    sums: np.ndarray = np.add.reduceat(by_group, counts.cumsum() - counts, dtype=np.float64)
    return (sums / counts[:, None]).astype(rows.dtype)[members]


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Return the log-probabilities of scores [n, k]. A missing candidate keeps the score -inf."""
    best = scores.max(axis=1, keepdims=True, initial=np.finfo(np.float32).min)
    total = np.exp(scores - best).sum(axis=1, keepdims=True)
    log_p: np.ndarray = scores - best - np.log(np.maximum(total, np.finfo(np.float32).tiny))
    return log_p
