"""The mentions of a spaCy Doc as spans, and their gold ids."""

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
    """Return the mentions of a doc: ``doc.spans[spans_key]``, or ``doc.ents`` if the key is None."""
    return list(doc.spans.get(spans_key, ()) if spans_key else doc.ents)


def add_ents(doc: Doc, spans: Iterable[Span]) -> None:
    """Add spans to ``doc.ents``, except those that overlap an entity there."""
    taken = {token.i for ent in doc.ents for token in ent}
    new = [span for span in spans if taken.isdisjoint(range(span.start, span.end))]
    doc.ents = [*doc.ents, *new]


def gold_ids(span: Span) -> tuple[str, ...]:
    """Return the ids of a gold mention. Each of them is correct; NIL has none."""
    return ids_in(span.kb_id_)


def ids_in(kb_id: str) -> tuple[str, ...]:
    """Return the ids in a ``kb_id_``, which joins them by "|"; "" and "NIL" have none."""
    return () if kb_id in ("", NIL) else tuple(kb_id.split("|"))


def split_tokens(doc: Doc, offsets: Iterable[int]) -> tuple[Doc, int]:
    """Split the tokens of a doc at character offsets.

    Returns:
        The doc, and the number of tokens that were split. If there are any, the doc is a new one:
        spaCy's retokenizer moves all later tokens for each split.
    """
    from spacy.tokens import Doc

    starts = [token.idx for token in doc]
    cuts: defaultdict[int, list[int]] = defaultdict(list)
    for offset in sorted(offsets):
        index = bisect_right(starts, offset) - 1
        if starts[index] < offset < starts[index] + len(doc[index]):
            cuts[index].append(offset - starts[index])
    if not cuts:
        return doc, 0
    words: list[str] = []
    spaces: list[bool] = []
    norms: dict[int, str] = {}  # set by the tokenizer, as for "n't"
    for token in doc:
        edges = (0, *cuts.get(token.i, ()), len(token))
        if len(edges) == 2 and token.norm != token.lex.norm:
            norms[len(words)] = token.norm_
        words += [token.text[start:end] for start, end in pairwise(edges)]
        spaces += [False] * (len(edges) - 2) + [bool(token.whitespace_)]
    split = Doc(doc.vocab, words=words, spaces=spaces, user_data=doc.user_data)
    for index, norm in norms.items():
        split[index].norm_ = norm
    return split, len(cuts)
