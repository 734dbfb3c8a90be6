"""What people decided goes before everything that was learnt: it is put first in what linking says."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..kb.corrections import ALIKE, LABEL, TEXT, Corrections, Decision, text_digest
from ..kb.knowledge_base import KnowledgeBase
from ..spans import NIL
from .link import Links

GIVEN = "given"  # the scope of an id that a rule gave to the mention
_SAME_PLACE, _SAME_TEXT = 3.0, 2.0  # above any cosine


class DecidedMention(NamedTuple):
    """What decides whether a correction is about a mention."""

    words: tuple[str, ...]  # its words in the text, and as it is read where that differs
    label: str
    start: int  # its first character in the text
    text: Callable[[], str]  # gives the text, which spaCy joins each time
    given: str = (
        ""  # the id that a rule gave it, such as a pattern of an "entity_ruler"; "" for none
    )


def decisions_about(
    corrections: Corrections,
    mentions: Sequence[DecidedMention],
    vectors: np.ndarray,
    encoder: str,
    groups: np.ndarray | None = None,
) -> list[Decision | None]:
    """The decision about each of n mentions, or None.

    An id that a rule gave goes first. Of several corrections, one for the mention's text goes before
    one for its label, and that before one for all mentions. Of several texts the most similar counts.

    Args:
        vectors: Those of the mentions, float32 [n, d].
        encoder: The fingerprint of what made them. Vectors of another one are not compared.
        groups: int [n], the group of each mention, as of ``link``. All mentions of a group follow the
            one among them that has the most specific decision.
    """
    ranked = [
        _best(corrections, mention, vector, encoder) for mention, vector in zip(mentions, vectors)
    ]
    if groups is not None:
        best: dict[int, tuple[float, Decision | None]] = {}
        for group, own in zip(groups.tolist(), ranked):
            best[group] = max(best.get(group, own), own, key=lambda pair: pair[0])
        ranked = [
            own if own[0] >= _SAME_PLACE else best[group]
            for group, own in zip(groups.tolist(), ranked)
        ]
    return [decision for _, decision in ranked]


def _best(
    corrections: Corrections, mention: DecidedMention, vector: np.ndarray, encoder: str
) -> tuple[float, Decision | None]:
    """The decision about a mention, and how specific it is; the higher, the more."""
    if mention.given:
        return np.inf, Decision(0, mention.words[0], mention.given, GIVEN)
    best: tuple[float, Decision | None] = (-np.inf, None)
    digest = ""
    for decision in corrections.about(*mention.words):
        rank = 0.0
        if decision.scope == LABEL:
            if decision.label.casefold() != mention.label.casefold():
                continue
            rank = 0.5
        elif decision.scope == TEXT:
            digest = digest or text_digest(mention.text())
            rank = -1.0
            if decision.digest == digest:
                rank = _SAME_PLACE if decision.start == mention.start else _SAME_TEXT
            elif decision.vector is not None and decision.encoder == encoder:
                a, b = decision.vector, vector
                rank = float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-12))
            if rank < ALIKE:
                continue
        if rank >= best[0]:  # of equal ones the latest
            best = rank, decision
    return best


def with_decisions(links: Links, kb: KnowledgeBase, decisions: Sequence[Decision | None]) -> Links:
    """Links in which the entity of each decision comes first, with the probability 1, or is NIL.

    The other candidates follow as they were, with the probability 0. An entity that the KB no longer
    has decides nothing.
    """
    wanted = [d.concept_id if d else "" for d in decisions]
    entities = kb.numbers_of(wanted)
    for place, id in enumerate(wanted):
        if id not in ("", NIL) and entities[place] < 0:
            found = kb.number(id)
            entities[place] = -1 if found is None else found
    nil = np.array([id == NIL for id in wanted])
    decided = np.flatnonzero(nil | (entities >= 0))
    if not len(decided):
        return links
    chances = np.full(links.scores.shape, np.nan, np.float32)
    if links.chances is not None:
        chances = links.chances.copy()
    lines = [links.numbers.copy(), links.scores.copy(), chances]
    extra = [column for column in (links.rerank_scores, links.mention_rows) if column is not None]
    lines += [column.copy() for column in extra]
    numbers, scores = lines[:2]
    for row in decided.tolist():
        chances[row, np.isfinite(chances[row])] = 0.0
        if nil[row]:
            continue
        entity = entities[row]
        there = np.flatnonzero(numbers[row] == entity)
        place = (
            int(there[0]) if len(there) else min((numbers[row] >= 0).sum(), numbers.shape[1] - 1)
        )
        if not len(there):
            score = kb.vectors.name_scores(
                links.vectors[row : row + 1], np.zeros(1, np.int64), np.array([entity])
            )[0]
            new = [entity, score if np.isfinite(score) else 0.0, np.nan]
            new += [np.nan] * (links.rerank_scores is not None)
            new += [-1] * (links.mention_rows is not None)
            for column, value in zip(lines, new):
                column[row, place] = value
        for column in lines:
            column[row, : place + 1] = np.roll(column[row, : place + 1], 1)
        chances[row, 0] = 1.0
    changed = dict(zip(("numbers", "scores", "chances"), lines))
    names = [n for n in ("rerank_scores", "mention_rows") if getattr(links, n) is not None]
    changed |= dict(zip(names, lines[3:]))
    all_nil, decisive = links.nil.copy(), links.decisive.copy()
    all_nil[decided], decisive[decided] = nil[decided], np.where(nil[decided], -np.inf, np.inf)
    made = [
        decision if row in set(decided.tolist()) else None for row, decision in enumerate(decisions)
    ]
    return links._replace(**changed, nil=all_nil, decisive=decisive, decisions=made)
