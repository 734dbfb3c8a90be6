"""The mentions of a Doc as the encoders read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Dict, List, Optional

from spacy.tokens import Doc, Span

from ..acronyms import defined_acronyms, expanded
from ..inputs import MentionInContext
from ..kb.selection import Only
from ..training.corpus import gold_mentions


def mentions_of(
    docs: Iterable[Doc], spans_key: Optional[str], expand_acronyms: bool
) -> List[MentionInContext]:
    """The mentions of all docs, in their order; see ``mentions_in_context``."""
    return [
        mention
        for doc in docs
        for mention in mentions_in_context(doc, gold_mentions(doc, spans_key), expand_acronyms)
    ]


def search_limits(
    docs: Iterable[Doc], spans_key: Optional[str], label_types: Optional[Dict[str, List[str]]]
) -> Optional[List[Optional[Only]]]:
    """What the search for each mention is confined to by its label; None if no label confines.

    label_types: from labels to names or codes of entity types.
    """
    if not label_types:
        return None
    limits = {label: Only(types=tuple(types)) for label, types in label_types.items()}
    return [limits.get(s.label_) for doc in docs for s in gold_mentions(doc, spans_key)]


def mentions_in_context(
    doc: Doc, spans: Sequence[Span], expand_acronyms: bool
) -> List[MentionInContext]:
    """The spans of the doc in its text, acronyms replaced by their long forms if that is asked."""
    offsets = [(span.start_char, span.end_char) for span in spans]
    return expanded(doc.text, offsets, long_forms(doc) if expand_acronyms and spans else {})


def long_forms(doc: Doc) -> Mapping[str, str]:
    """From the acronyms that the doc defines to their long forms.

    They are those that scispaCy's AbbreviationDetector has found, where it is in the pipeline and
    has found any, and else those of ``defined_acronyms``.
    """
    if not Doc.has_extension("abbreviations") or not doc._.abbreviations:
        return defined_acronyms(doc.text)
    return dict(map(_pair, reversed(doc._.abbreviations)))  # of several, the first


def _pair(abbreviation: object) -> tuple[str, str]:
    """Acronym and long form: of a span, or of what ``make_serializable`` makes of it."""
    if isinstance(abbreviation, dict):
        return abbreviation["short_text"], abbreviation["long_text"]
    return abbreviation.text, str(abbreviation._.long_form)
