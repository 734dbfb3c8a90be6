"""Mentions as spans of a spaCy Doc: where they stand, and what their gold ids are."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span


# The id of a mention whose entity is not in the knowledge base.
NIL = "NIL"


def mention_spans(doc: Doc, spans_key: str | None = None) -> list[Span]:
    """The mentions of a doc.

    Args:
        doc: Any doc.
        spans_key: The mentions are ``doc.spans[spans_key]``; None: ``doc.ents``.
    """
    return list(doc.spans.get(spans_key, ()) if spans_key else doc.ents)


def gold_ids(span: Span) -> tuple[str, ...]:
    """The entity ids of a gold mention, any of which is right; none for NIL."""
    return ids_in(span.kb_id_)


def ids_in(kb_id: str) -> tuple[str, ...]:
    """The ids that are joined by "|" in a ``kb_id_``; "" and "NIL" mean none."""
    return () if kb_id in ("", NIL) else tuple(kb_id.split("|"))


def split_tokens(doc: Doc, offsets: Iterable[int]) -> int:
    """Split the tokens of a doc that have one of the offsets inside.

    Args:
        doc: Is changed.
        offsets: Offsets of characters, where mentions begin and end.

    Returns:
        The number of tokens that were split.
    """
    starts = [token.idx for token in doc]
    cuts: defaultdict[int, list[int]] = defaultdict(list)
    for offset in sorted(offsets):
        index = bisect_right(starts, offset) - 1
        if starts[index] < offset < starts[index] + len(doc[index]):
            cuts[index].append(offset - starts[index])
    with doc.retokenize() as retokenizer:
        for index, inside in cuts.items():
            token = doc[index]
            edges = pairwise((0, *inside, len(token)))
            parts = [token.text[left:right] for left, right in edges]
            retokenizer.split(token, parts, heads=[(token, n) for n in range(len(parts))])
    return len(cuts)
