"""The mentions of docs as encoders read them, and how their searches are confined and grouped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from spacy.tokens import Doc, Span

from ..kb.knowledge_base import SearchFilter
from ..reading.acronyms import at_long_forms, defined_acronyms, expanded
from ..reading.mention import DocumentContext, MentionInContext


def mentions_of(
    docs: Sequence[Doc],
    spans: Sequence[Sequence[Span]],
    documents: Sequence[DocumentContext],
    resolve_abbreviations: bool,
) -> list[MentionInContext]:
    """The mentions of all docs, in their order.

    Args:
        docs: The docs.
        spans: The mentions of each doc.
        documents: The context of each doc.
        resolve_abbreviations: Whether acronyms are read as their long forms.
    """
    return [
        mention
        for doc, own, document in zip(docs, spans, documents)
        for mention in mentions_in_context(doc, own, resolve_abbreviations, document)
    ]


def search_filters(
    spans: Sequence[Sequence[Span]],
    *,
    types: list[str] | None,
    sources: list[str] | None,
    label_types: dict[str, list[str]] | None,
) -> list[SearchFilter | None] | None:
    """What the search for each mention is confined to.

    Args:
        spans: The mentions of each doc.
        types: Types of the entities that any mention may be of; None for all.
        sources: Sources of the entities that any mention may be of; None for all.
        label_types: From labels of mentions to the types that take the place of ``types``.

    Returns:
        The filter of each mention, None for all entities; None if no mention has a filter.
    """
    for_all = SearchFilter(tuple(types or ()), tuple(sources or ()))
    of_label = {
        label: for_all._replace(types=tuple(own)) for label, own in (label_types or {}).items()
    }
    if not any(for_all) and not of_label:
        return None
    found = [of_label.get(span.label_, for_all) for own in spans for span in own]
    return [each if any(each) else None for each in found]


def agreeing(
    spans: Sequence[Sequence[Span]],
    mentions: Sequence[MentionInContext],
    filters: Sequence[SearchFilter | None] | None,
) -> np.ndarray:
    """Group the mentions of a doc that have the same words, ignoring case, and the same filter.

    Args:
        spans: The mentions of each doc.
        mentions: The mentions of all docs, as they are read.
        filters: As ``search_filters`` gives them.

    Returns:
        int64 [n], the number of each mention's group.
    """
    doc_numbers = np.repeat(np.arange(len(spans)), [len(own) for own in spans]).tolist()
    surfaces = [mention.surface.casefold() for mention in mentions]
    keys = list(zip(doc_numbers, surfaces, filters or [None] * len(mentions)))
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys])


def mentions_in_context(
    doc: Doc,
    spans: Sequence[Span],
    resolve_abbreviations: bool,
    document: DocumentContext | None = None,
) -> list[MentionInContext]:
    """The spans of a doc in its text, in which acronyms may be replaced by their long forms.

    Nothing can be replaced in a text that another component has read: an acronym is read there where
    its long form stands.

    Args:
        doc: The doc.
        spans: Its mentions.
        resolve_abbreviations: Whether acronyms are read as their long forms.
        document: The context of the doc; None for a new one, without states.
    """
    document = document or DocumentContext()
    offsets = [(span.start_char, span.end_char) for span in spans]
    text = doc.text  # spaCy joins the tokens each time
    acronyms = long_forms(doc, text) if resolve_abbreviations and spans else {}
    read = expanded if document.token_states is None else at_long_forms
    return read(text, offsets, acronyms, document)


def long_forms(doc: Doc, text: str) -> Mapping[str, str]:
    """From the acronyms that a doc defines to their long forms.

    They are those that scispaCy's AbbreviationDetector has found, if it is in the pipeline and has
    found any. Otherwise they are those of ``defined_acronyms``.

    Args:
        doc: The doc.
        text: Its text.
    """
    if not Doc.has_extension("abbreviations") or not doc._.abbreviations:
        return defined_acronyms(text)
    return dict(map(_pair, reversed(doc._.abbreviations)))  # of several, the first


def _pair(abbreviation: object) -> tuple[str, str]:
    """Acronym and long form: of a span, or of what ``make_serializable`` makes of it."""
    if isinstance(abbreviation, dict):
        return abbreviation["short_text"], abbreviation["long_text"]
    return abbreviation.text, str(abbreviation._.long_form)
