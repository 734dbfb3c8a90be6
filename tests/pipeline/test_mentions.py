"""Mentions of docs as they are read, with scispaCy's detector and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import spacy
from spacy.tokens import Doc, Span

from spacy_pel.pipeline.mentions import long_forms, mentions_in_context

TEXT = "Multiple sclerosis (MS) is rare. Lesions of MS were seen."


@pytest.fixture
def doc() -> Doc:
    doc = spacy.blank("en")(TEXT)
    doc.ents = [doc.char_span(44, 46, label="TERM"), doc.char_span(33, 40, label="TERM")]
    return doc


@pytest.fixture
def detector() -> Iterator[None]:
    """The attributes that scispaCy's AbbreviationDetector sets, for one test."""
    Doc.set_extension("abbreviations", default=[])
    Span.set_extension("long_form", default=None)
    yield
    Doc.remove_extension("abbreviations")
    Span.remove_extension("long_form")


def surfaces(doc: Doc, expand_acronyms: bool) -> list[str]:
    mentions = mentions_in_context(doc, doc.ents, expand_acronyms)
    return [text[start:end] for text, start, end in mentions]


def test_acronyms_are_expanded_if_that_is_asked(doc: Doc) -> None:
    assert surfaces(doc, False) == ["Lesions", "MS"]
    assert surfaces(doc, True) == ["Lesions", "Multiple sclerosis"]
    assert [m.text for m in mentions_in_context(doc, doc.ents, False)] == [TEXT] * 2
    assert mentions_in_context(doc, [], True) == []


@pytest.mark.usefixtures("detector")
def test_what_scispacys_detector_has_found_goes_first(doc: Doc) -> None:
    short = doc.char_span(44, 46)
    short._.long_form = doc.char_span(33, 40)
    doc._.abbreviations = [short]
    assert long_forms(doc) == {"MS": "Lesions"}
    assert surfaces(doc, True) == ["Lesions", "Lesions"]


@pytest.mark.usefixtures("detector")
def test_the_detectors_serializable_form_is_read_as_well(doc: Doc) -> None:
    found = {"short_text": "MS", "short_start": 9, "short_end": 10, "long_text": "one"}
    doc._.abbreviations = [found, {**found, "long_text": "two"}]
    assert long_forms(doc) == {"MS": "one"}


@pytest.mark.usefixtures("detector")
def test_where_the_detector_has_found_nothing_the_text_is_read(doc: Doc) -> None:
    assert long_forms(doc) == {"MS": "Multiple sclerosis"}
