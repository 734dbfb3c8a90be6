"""What people decided goes before everything that was learnt: it is put first in what linking says."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from math import sqrt
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ..kb.corrections import LABEL, TEXT, Corrections, Decision, name_key, text_digest
from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.entity import RESERVED_ID as NIL
from ..kb.records.names import name_hash
from .link import Links

GIVEN = "given"  # the scope of an id that a rule gave to the mention
# The similarity from which texts are alike. Of pairs of texts that use an acronym in two senses, 0.5 % are
# as similar; of pairs with one sense, 18 % (docs/results.md).
ALIKE = 0.2
# How specific a decision is. A text that is alike has its similarity, at most 1.
_ALWAYS, _LABEL, _SAME_TEXT, _SAME_PLACE = 0.0, 0.1, 2.0, 3.0
_WORD = re.compile(r"[^\W\d_](?:[^\W\d_]|-){2,}")
_LETTERS = 6
# Words of every text; shorter ones are not looked at.
_EVERYWHERE = frozenset(
    "about after again all also although among and another any are because been before being between both "
    "but can could did does doing done down due during each either every few for from further had has have "
    "having her here his how however into its itself least less made make many may might more most much "
    "must neither never nor not now off one only other our out over own per perhaps rather same several she "
    "should since some still such than that the their them then there therefore these they this those three "
    "through thus together too toward two under until upon using very was well were what when where whether "
    "which while who whose why will with within without would yet you your".split()
)

# What is known of an entity that was not among the candidates, beside its number.
_NEW = {"scores": np.nan, "probabilities": np.nan, "rerank_scores": np.nan, "mention_rows": -1}

Ranked = tuple[float, Decision | None]


class DecidedMention(NamedTuple):
    """What decides whether a correction is about a mention."""

    words: tuple[str, ...]  # its words in the text, and those that it is read as
    label: str
    start: int  # its first character in the text
    text: Callable[[], str]  # gives the text, which spaCy joins each time
    given: str = (
        ""  # the id that a rule gave it, such as a pattern of an "entity_ruler"; "" for none
    )


def decisions_about(
    kb: KnowledgeBase, mentions: Sequence[DecidedMention], groups: np.ndarray | None = None
) -> list[Decision | None]:
    """The decision about each of n mentions, or None.

    An id that a rule gave goes first. Of several corrections, one for the mention's text goes before one
    for a text alike, that before one for its label, and that before one for all mentions. Of several texts
    the most similar counts; of equal corrections, the latest.

    ``groups``, int [n], has the group of each mention, as of ``link``. Mentions of a group that have the
    same name follow the one among them that has the most specific decision. An acronym follows its long
    form, because it is read so. A long form does not follow its acronym.
    """
    corrections, words_of = kb.corrections, cache(partial(weighted_words, kb))
    ranked = [_best(corrections, mention, words_of) for mention in mentions]
    if groups is not None:
        best: dict[tuple[int, str], Ranked] = {}
        names = [name_key(mention.words[0]) for mention in mentions]
        keys = list(zip(groups.tolist(), names, strict=True))
        for key, own in zip(keys, ranked):
            best[key] = max(best.get(key, own), own, key=itemgetter(0))
        ranked = [own if own[0] >= _SAME_PLACE else best[key] for key, own in zip(keys, ranked)]
    return [decision for _, decision in ranked]


def _best(
    corrections: Corrections,
    mention: DecidedMention,
    words_of: Callable[[str], Mapping[int, float]],
) -> Ranked:
    """The decision about a mention, and how specific it is; the higher, the more."""
    if mention.given:
        return np.inf, Decision(0, mention.words[0], mention.given, GIVEN)
    best: Ranked = (-np.inf, None)
    for decision in corrections.about(*mention.words):
        rank = _ALWAYS
        if decision.scope == LABEL:
            if decision.label.casefold() != mention.label.casefold():
                continue
            rank = _LABEL
        elif decision.scope == TEXT:
            text = mention.text()
            if decision.digest == text_digest(text):
                rank = _SAME_PLACE if decision.start == mention.start else _SAME_TEXT
            elif (rank := _text_similarity(words_of, text, decision)) < ALIKE:
                continue
        if rank >= best[0]:
            best = rank, decision
    return best


def weighted_words(kb: KnowledgeBase, text: str) -> dict[int, float]:
    """The words of a text as hashes, each with the weight that it has when texts are compared.

    Of a word the first letters count, so that "dilated" and "dilation" are one. Its weight is the
    square of how rare it is in names of the KB.
    """
    words = {word for word in _WORD.findall(text.casefold()) if word not in _EVERYWHERE}
    return {name_hash(w): kb.rarity(w) ** 2 for w in sorted({w[:_LETTERS] for w in words})}


def _text_similarity(
    words_of: Callable[[str], Mapping[int, float]], text: str, decision: Decision
) -> float:
    """The cosine of the words of a text and of those of a decision, without those of its name."""
    own, theirs, of_name = words_of(text), decision.words, words_of(decision.name)
    shared = own.keys() & theirs.keys() - of_name.keys()
    sums = [
        sum(weight for word, weight in words.items() if word not in of_name)
        for words in (own, theirs)
    ]
    return sum(own[word] for word in shared) / max(sqrt(sums[0] * sums[1]), 1e-9)


def with_decisions(links: Links, kb: KnowledgeBase, decisions: Sequence[Decision | None]) -> Links:
    """Links in which the entity of each decision comes first, with the probability 1, or is NIL.

    The other candidates follow as they were, with the probability 0. An entity that the KB no longer
    has decides nothing.
    """
    wanted = [decision.concept_id if decision else "" for decision in decisions]
    numbered = {id: kb.number(id) for id in {*wanted} - {"", NIL}}
    entities = np.array([-1 if (n := numbered.get(id)) is None else n for id in wanted])
    nil = np.array([id == NIL for id in wanted])
    decided = np.flatnonzero(nil | (entities >= 0))
    if not len(decided):
        return links
    probabilities = np.full(links.scores.shape, np.nan, np.float32)
    columns = {"numbers": links.numbers, "scores": links.scores, "probabilities": probabilities}
    for name in ("probabilities", "rerank_scores", "mention_rows"):
        if (column := getattr(links, name)) is not None:
            columns[name] = column
    columns = {name: column.copy() for name, column in columns.items()}
    numbers, scores, probabilities = (
        columns[name] for name in ("numbers", "scores", "probabilities")
    )
    for row in decided.tolist():
        probabilities[row, np.isfinite(probabilities[row])] = 0.0
        probabilities[row, 0] = 0.0  # of a mention that is NIL
        if nil[row]:
            continue
        there = np.flatnonzero(numbers[row] == entities[row])
        if not len(there):  # in the first free place, or in that of the last candidate
            there = np.flatnonzero(np.append(numbers[row, :-1], -1) < 0)
            for name, column in columns.items():
                column[row, there[0]] = _NEW.get(name, entities[row])
            own = kb.vectors.name_scores(
                links.vectors[[row]], np.zeros(1, np.int64), entities[[row]]
            )
            scores[row, there[0]] = np.nan_to_num(own[0], neginf=0.0)
        for column in columns.values():
            column[row, : there[0] + 1] = np.roll(column[row, : there[0] + 1], 1)
        probabilities[row, 0] = 1.0
    all_nil, nil_score = links.nil.copy(), links.nil_score.copy()
    all_nil[decided], nil_score[decided] = nil[decided], np.where(nil[decided], -np.inf, np.inf)
    valid: list[Decision | None] = [None] * len(decisions)
    for row in decided.tolist():
        valid[row] = decisions[row]
    return links._replace(**columns, nil=all_nil, nil_score=nil_score, decisions=valid)
