from collections.abc import Iterator

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span

from spacy_pel.pipeline import doc_mentions
from spacy_pel.pipeline.doc_mentions import long_forms, mentions_in_context
from spacy_pel.text.mention_inputs import DocumentContext

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


def test_acronyms_are_read_as_long_forms_if_that_is_asked(doc: Doc) -> None:
    """In a text that another component has read, a mention stands at the long form."""
    if Span.has_extension("read_as"):  # as where no linker was made
        Span.remove_extension("read_as")
    states = np.zeros((len(doc), 3), np.float32)
    offsets = np.array([(token.idx, token.idx + len(token)) for token in doc])
    read = DocumentContext(states, offsets, states)
    for resolve, start in ((True, 0), (False, 44)):
        _, acronym = mentions_in_context(doc, doc.ents, None, resolve)
        assert acronym.surface == ("Multiple sclerosis" if resolve else "MS")
        lesions, acronym = mentions_in_context(doc, doc.ents, read, resolve)
        assert (lesions.start, acronym.start, acronym.text) == (33, start, TEXT)
        assert lesions.document is acronym.document is read
    assert mentions_in_context(doc, [], None, True) == []


@pytest.mark.usefixtures("detector")
def test_what_scispacys_detector_has_found_goes_first(doc: Doc) -> None:
    assert long_forms(doc, doc.text) == {"MS": "Multiple sclerosis"}  # it has found nothing
    short = doc.char_span(44, 46)
    short._.long_form = doc.char_span(33, 40)
    doc._.abbreviations = [short]
    assert long_forms(doc, doc.text) == {"MS": "Lesions"}
    serializable = {"short_text": "MS", "short_start": 9, "short_end": 10, "long_text": "one"}
    doc._.abbreviations = [serializable, {**serializable, "long_text": "two"}]
    assert long_forms(doc, doc.text) == {"MS": "one"}


def test_abbreviations_are_detected_once_for_a_doc_and_its_copies(doc: Doc, monkeypatch) -> None:
    expected = long_forms(doc, doc.text)
    monkeypatch.setattr(doc_mentions, "defined_abbreviations", lambda text: {"text": text})
    for same in (doc, doc.copy(), Doc(doc.vocab).from_bytes(doc.to_bytes())):
        assert long_forms(same, doc.text) == expected
    assert long_forms(doc, "another (text)") == {"text": "another (text)"}
