"""Apply corrections by people, and ids set by rules. Both override everything that was learnt."""

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
# The minimum similarity of similar texts. 0.5 % of the pairs of texts that use an acronym in two senses
# reach it, and 18 % of the pairs with one sense (2,468 pairs, 209 acronyms).
MIN_SIMILARITY = 0.2
# How specific a decision is. For a similar text it is the similarity, at most 1.
_ALWAYS, _LABEL, _SAME_TEXT, _SAME_PLACE = 0.0, 0.1, 2.0, 3.0
_WORD = re.compile(r"[^\W\d_](?:[^\W\d_]|-){2,}")
_PREFIX_LENGTH = 6
# Words that say nothing about the topic of a text; shorter words are not compared.
_STOP_WORDS = frozenset(
    "about after again all also although among and another any are because been before being between both "
    "but can could did does doing done down due during each either every few for from further had has have "
    "having her here his how however into its itself least less made make many may might more most much "
    "must neither never nor not now off one only other our out over own per perhaps rather same several she "
    "should since some still such than that the their them then there therefore these they this those three "
    "through thus together too toward two under until upon using very was well were what when where whether "
    "which while who whose why will with within without would yet you your".split()
)

# The values of an entity that was not among the candidates.
_NOT_A_CANDIDATE = {
    "scores": np.nan, "probabilities": np.nan, "rerank_scores": np.nan, "mention_rows": -1
}  # fmt: skip

Ranked = tuple[float, Decision | None]  # how specific a decision is, and the decision


class DecidedMention(NamedTuple):
    """The properties of a mention that decide whether a correction applies to it."""

    words: tuple[str, ...]  # its words in the text, and its long form if it is read as another text
    label: str
    start: int  # its first character in the text
    text: str  # of the document
    given: str = ""  # the id from a rule, such as a pattern of an "entity_ruler"; "" for none


def decisions_about(
    kb: KnowledgeBase, mentions: Sequence[DecidedMention], groups: np.ndarray | None = None
) -> list[Decision | None]:
    """Return the decision about each of n mentions, or None.

    The most specific decision applies: an id from a rule, then a correction for the mention's text, for the
    most similar text, for its label, and for all mentions. Of equally specific corrections, the latest
    applies. An acronym that is read as its long form follows corrections of the long form. A long form does
    not follow corrections of its acronym.

    Args:
        kb: The KB with the corrections.
        mentions: The n mentions.
        groups: Int [n], as ``LinkOptions.groups``. Mentions of a group with the same name follow the most
            specific decision about one of them. None: each mention follows its own.
    """
    corrections, words_of = kb.corrections, cache(partial(weighted_words, kb))
    ranked = [_most_specific(corrections, mention, words_of) for mention in mentions]
    if groups is not None:
        names = [name_key(mention.words[0]) for mention in mentions]
        keys = list(zip(groups.tolist(), names, strict=True))
        best: dict[tuple[int, str], Ranked] = {}
        for key, decision in zip(keys, ranked):
            best[key] = max(best.get(key, decision), decision, key=itemgetter(0))
        ranked = [
            decision if decision[0] >= _SAME_PLACE else best[key]
            for key, decision in zip(keys, ranked)
        ]
    return [decision for _, decision in ranked]


def _most_specific(
    corrections: Corrections,
    mention: DecidedMention,
    words_of: Callable[[str], Mapping[int, float]],
) -> Ranked:
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
            text = mention.text
            if decision.digest == text_digest(text):
                rank = _SAME_PLACE if decision.start == mention.start else _SAME_TEXT
            elif (rank := _text_similarity(words_of, text, decision)) < MIN_SIMILARITY:
                continue
        if rank >= best[0]:
            best = rank, decision
    return best


def weighted_words(kb: KnowledgeBase, text: str) -> dict[int, float]:
    """Return the hashes of the words of a text, with their weights for comparing texts.

    Only the first letters of a word count, so that "dilated" equals "dilation". Its weight is the
    square of its rarity in names of the KB.
    """
    words = {word for word in _WORD.findall(text.casefold()) if word not in _STOP_WORDS}
    prefixes = sorted({word[:_PREFIX_LENGTH] for word in words})
    return {name_hash(p): rarity**2 for p, rarity in zip(prefixes, kb.rarities(prefixes))}


def _text_similarity(
    words_of: Callable[[str], Mapping[int, float]], text: str, decision: Decision
) -> float:
    """Return the cosine similarity of a text and a decision's text, without the words of the name."""
    words, of_name = words_of(text), words_of(decision.name)
    shared = words.keys() & decision.words.keys() - of_name.keys()
    sums = [
        sum(weight for word, weight in weights.items() if word not in of_name)
        for weights in (words, decision.words)
    ]
    return sum(words[word] for word in shared) / max(sqrt(sums[0] * sums[1]), 1e-9)


def with_decisions(links: Links, kb: KnowledgeBase, decisions: Sequence[Decision | None]) -> Links:
    """Return links that follow the decisions about their mentions.

    The entity of a decision becomes the first candidate, with the probability 1. The other candidates follow
    in their order, with the probability 0. A mention with a decision for NIL is NIL. A decision for an entity
    that the KB no longer has is ignored.

    Args:
        links: The links of n mentions.
        kb: The KB of the links.
        decisions: The decision about each of the n mentions, or None.
    """
    ids = [decision.concept_id if decision else "" for decision in decisions]
    numbers_of_ids = {id: kb.number(id) for id in {*ids} - {"", NIL}}
    entities = np.array([-1 if (n := numbers_of_ids.get(id)) is None else n for id in ids])
    nil = np.array([id == NIL for id in ids])
    decided = np.flatnonzero(nil | (entities >= 0))
    if not len(decided):
        return links
    columns = {"numbers": links.numbers.copy(), "scores": links.scores.copy()}
    columns["probabilities"] = np.full(links.scores.shape, np.nan, np.float32)
    for name in ("probabilities", "rerank_scores", "mention_rows"):
        if (column := getattr(links, name)) is not None:
            columns[name] = column.copy()
    numbers, scores, probabilities = columns["numbers"], columns["scores"], columns["probabilities"]
    for row in decided.tolist():
        probabilities[row, np.isfinite(probabilities[row])] = 0.0
        probabilities[row, 0] = 0.0  # of a mention that is NIL
        if nil[row]:
            continue
        if entities[row] in numbers[row]:
            place = int(np.argmax(numbers[row] == entities[row]))
        else:  # in the first free place, or in that of the last candidate
            place = int(np.argmax(np.append(numbers[row, :-1], -1) < 0))
            for name, column in columns.items():
                column[row, place] = _NOT_A_CANDIDATE.get(name, entities[row])
            score = kb.vectors.name_scores(
                links.vectors[[row]], np.zeros(1, np.int64), entities[[row]]
            )
            scores[row, place] = np.nan_to_num(score[0], neginf=0.0)
        for column in columns.values():
            column[row, : place + 1] = np.roll(column[row, : place + 1], 1)
        probabilities[row, 0] = 1.0
    all_nil, nil_score = links.nil.copy(), links.nil_score.copy()
    all_nil[decided], nil_score[decided] = nil[decided], np.where(nil[decided], -np.inf, np.inf)
    followed: list[Decision | None] = [None] * len(decisions)
    for row in decided.tolist():
        followed[row] = decisions[row]
    return links._replace(
        numbers=numbers,
        scores=scores,
        nil=all_nil,
        nil_score=nil_score,
        rerank_scores=columns.get("rerank_scores"),
        probabilities=probabilities,
        mention_rows=columns.get("mention_rows"),
        decisions=followed,
    )
