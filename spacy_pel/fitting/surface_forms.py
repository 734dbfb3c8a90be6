"""Accuracy by surface forms: what a lenient evaluation would report, and how mentions of several senses do.

Some papers count an answer as right if its *name* is also a name of the right entity (BioSyn,
SapBERT; criticised by Zhang et al. 2022, section 4.5). A name that several entities share is then
always right. These figures are meant to stand beside the strict ones, which compare ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from spacy.training import Example

from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.names import normalised
from ..spans import gold_ids, mention_spans


def surface_scores(
    examples: Iterable[Example], kb: KnowledgeBase, spans_key: str | None = None
) -> dict[str, Any]:
    """The accuracy of the best candidates of linked mentions, by ids and by names.

    Only mentions whose entity the KB has count. A mention is *ambiguous* if its words are a name of
    two or more entities of the KB.

    Args:
        examples: Linked docs with their gold mentions.
        kb: The knowledge base that was linked to.
        spans_key: The mentions are ``doc.spans[spans_key]``; None: ``doc.ents``.

    Returns:
        ``strict``: the share of mentions whose best candidate is the right entity. ``lenient``: the
        share whose best candidate has a name in common with the right entity; names are compared
        without case, blanks and punctuation. ``ambiguous``: the share of ambiguous mentions.
        ``strict_ambiguous`` and ``lenient_ambiguous``: the same of these alone. None where there is
        no such mention.
    """
    owners = cache(lambda surface: len(kb.numbers_named(surface)))
    names = cache(lambda number: frozenset(map(normalised, kb.entities([number])[0].names)))
    strict, lenient, ambiguous = [], [], []
    for example in examples:
        found = {(s.start_char, s.end_char): s for s in mention_spans(example.predicted, spans_key)}
        for span in mention_spans(example.reference, spans_key):
            golds = {number for id in gold_ids(span) if (number := kb.number(id)) is not None}
            if golds:
                answer = _answer(kb, found.get((span.start_char, span.end_char)))
                strict.append(answer in golds)
                lenient.append(_has_name_of(answer, golds, names))
                ambiguous.append(owners(span.text) > 1)
    return {
        "strict": _share(strict),
        "lenient": _share(lenient),
        "ambiguous": _share(ambiguous),
        "strict_ambiguous": _share([x for x, several in zip(strict, ambiguous) if several]),
        "lenient_ambiguous": _share([x for x, several in zip(lenient, ambiguous) if several]),
    }


def surface_summary(scores: dict[str, Any]) -> str:
    """The scores in one line."""
    shown = {name: "-" if x is None else f"{100 * x:.1f}" for name, x in scores.items()}
    return (
        f"recall@1 in KB: by id {shown['strict']}, by name {shown['lenient']}; "
        f"{shown['ambiguous']} % of mentions are a name of several entities: by id "
        f"{shown['strict_ambiguous']}, by name {shown['lenient_ambiguous']}"
    )


def _answer(kb: KnowledgeBase, span: Any) -> int | None:
    """The number of the best candidate of a linked mention; None if there is none."""
    ids = span._.kb_candidate_columns.get("id", []) if span is not None else []
    return kb.number(ids[0]) if ids else None


def _has_name_of(
    answer: int | None, golds: set[int], names: Callable[[int], frozenset[str]]
) -> bool:
    if answer is None:
        return False
    return any(not names(answer).isdisjoint(names(gold)) for gold in golds)


def _share(values: list[bool]) -> float | None:
    return sum(values) / len(values) if values else None
