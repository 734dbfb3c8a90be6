"""The mentions of a Doc as the encoders read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from spacy.tokens import Doc, Span

from ..kb.search_filter import SearchFilter
from ..reading.acronyms import at_long_forms, defined_acronyms, expanded
from ..reading.inputs import MentionInContext
from ..spans import mention_spans


def mentions_of(
    docs: Sequence[Doc],
    spans_key: str | None,
    resolve_abbreviations: bool,
    texts: Sequence[str] | None = None,
) -> list[MentionInContext]:
    """The mentions of all docs, in their order; see ``mentions_in_context``."""
    return [
        mention
        for doc, text in zip(docs, texts or [None] * len(docs))
        for mention in mentions_in_context(
            doc, mention_spans(doc, spans_key), resolve_abbreviations, text
        )
    ]


def search_limits(
    docs: Iterable[Doc],
    spans_key: str | None,
    *,
    types: list[str] | None,
    sources: list[str] | None,
    label_types: dict[str, list[str]] | None,
) -> list[SearchFilter | None] | None:
    """What the search for each mention is confined to; None if none is.

    types, sources: of the entities that any mention may be of. label_types: from labels to types
        that go before these.
    """
    for_all = SearchFilter(tuple(types or ()), tuple(sources or ()))
    limits = {
        label: for_all._replace(types=tuple(own)) for label, own in (label_types or {}).items()
    }
    if not any(for_all) and not limits:
        return None
    found = [limits.get(s.label_, for_all) for doc in docs for s in mention_spans(doc, spans_key)]
    return [only if any(only) else None for only in found]


def agreeing(
    docs: Iterable[Doc],
    spans_key: str | None,
    mentions: Sequence[MentionInContext],
    only: Sequence[SearchFilter | None] | None,
) -> np.ndarray:
    """Groups of the docs' mentions, int64 [n]: in one doc, the same words but for case.

    Their searches are confined alike. mentions: of the docs, as they are read. only: see
        ``search_limits``.
    """
    places = [i for i, doc in enumerate(docs) for _ in mention_spans(doc, spans_key)]
    surfaces = [text[start:end].casefold() for text, start, end in mentions]
    keys = list(zip(places, surfaces, only or [None] * len(mentions)))
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys])


def mentions_in_context(
    doc: Doc, spans: Sequence[Span], resolve_abbreviations: bool, text: str | None = None
) -> list[MentionInContext]:
    """The spans of the doc in its text, acronyms replaced by their long forms if that is asked.

    text: of the doc as it was read before (``states.ReadText``), in which nothing can be replaced:
    an acronym is there read where its long form stands.
    """
    offsets = [(span.start_char, span.end_char) for span in spans]
    written = doc.text  # which spaCy puts together of its tokens, each time
    acronyms = long_forms(doc, written) if resolve_abbreviations and spans else {}
    if text is not None:
        return at_long_forms(text, offsets, acronyms)
    return expanded(written, offsets, acronyms)


def long_forms(doc: Doc, text: str) -> Mapping[str, str]:
    """From the acronyms that the doc, whose text it is, defines to their long forms.

    They are those that scispaCy's AbbreviationDetector has found, where it is in the pipeline and
    has found any, and else those of ``defined_acronyms``.
    """
    if not Doc.has_extension("abbreviations") or not doc._.abbreviations:
        return defined_acronyms(text)
    return dict(map(_pair, reversed(doc._.abbreviations)))  # of several, the first


def _pair(abbreviation: object) -> tuple[str, str]:
    """Acronym and long form: of a span, or of what ``make_serializable`` makes of it."""
    if isinstance(abbreviation, dict):
        return abbreviation["short_text"], abbreviation["long_text"]
    return abbreviation.text, str(abbreviation._.long_form)
