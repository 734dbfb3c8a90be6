"""Mentions of docs as they are read, with scispaCy's detector and without."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span

from spacy_pel.kb import SearchFilter
from spacy_pel.pipeline.doc_mentions import (
    agreeing,
    long_forms,
    mentions_in_context,
    mentions_of,
    search_filters,
)
from spacy_pel.reading.mention import DocumentContext, TokenStates
from spacy_pel.spans import mention_spans

from .conftest import TRAIN, Trained
from .conftest import mentions_of as with_given_mentions

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


def surfaces(doc: Doc, resolve_abbreviations: bool) -> list[str]:
    mentions = mentions_in_context(doc, doc.ents, resolve_abbreviations)
    return [mention.surface for mention in mentions]


def test_acronyms_are_expanded_if_that_is_asked(doc: Doc) -> None:
    assert surfaces(doc, False) == ["Lesions", "MS"]
    assert surfaces(doc, True) == ["Lesions", "Multiple sclerosis"]
    assert [m.text for m in mentions_in_context(doc, doc.ents, False)] == [TEXT] * 2
    assert mentions_in_context(doc, [], True) == []


def test_in_a_text_that_was_read_an_acronym_stands_at_its_long_form(doc: Doc) -> None:
    states = np.zeros((len(doc), 3), np.float32)
    offsets = np.array([(token.idx, token.idx + len(token)) for token in doc])
    document = DocumentContext(TokenStates(states, offsets, states))
    for resolve, start in ((True, 0), (False, 44)):
        lesions, acronym = mentions_in_context(doc, doc.ents, resolve, document)
        assert (lesions.start, acronym.start) == (33, start)
        assert lesions.text == acronym.text == TEXT
        assert lesions.document is acronym.document is document


@pytest.mark.usefixtures("detector")
def test_what_scispacys_detector_has_found_goes_first(doc: Doc) -> None:
    short = doc.char_span(44, 46)
    short._.long_form = doc.char_span(33, 40)
    doc._.abbreviations = [short]
    assert long_forms(doc, doc.text) == {"MS": "Lesions"}
    assert surfaces(doc, True) == ["Lesions", "Lesions"]


@pytest.mark.usefixtures("detector")
def test_the_detectors_serializable_form_is_read_as_well(doc: Doc) -> None:
    found = {"short_text": "MS", "short_start": 9, "short_end": 10, "long_text": "one"}
    doc._.abbreviations = [found, {**found, "long_text": "two"}]
    assert long_forms(doc, doc.text) == {"MS": "one"}


@pytest.mark.usefixtures("detector")
def test_where_the_detector_has_found_nothing_the_text_is_read(doc: Doc) -> None:
    assert long_forms(doc, doc.text) == {"MS": "Multiple sclerosis"}


def test_a_search_is_confined_by_the_pipeline_and_by_the_label(doc: Doc) -> None:
    def limits(**settings):
        unset = {"types": None, "sources": None, "label_types": None}
        return search_filters([doc.ents], **{**unset, **settings})

    first, second = doc.ents
    doc.ents = [first, Span(doc, second.start, second.end, label="OTHER")]
    assert limits() is None
    assert limits(label_types={"TERM": ["A"]}) == [SearchFilter(("A",)), None]
    assert limits(types=["B"], label_types={"TERM": ["A"]}) == [
        SearchFilter(("A",)),
        SearchFilter(("B",)),
    ]
    assert limits(sources=["S"], label_types={"TERM": ["A"]}) == [
        SearchFilter(("A",), ("S",)), SearchFilter((), ("S",))
    ]  # fmt: skip


def test_mentions_agree_that_are_the_same_words_in_a_doc() -> None:
    nlp = spacy.blank("en")
    docs = [nlp("MS and ms and lesions."), nlp("ms"), nlp("none")]
    for doc in docs[:2]:
        doc.ents = [Span(doc, t.i, t.i + 1, "TERM") for t in doc if t.text.lower() in "ms lesions"]
    spans = [mention_spans(doc) for doc in docs]
    mentions = mentions_of(docs, spans, [DocumentContext() for _ in docs], False)
    first, second, third, fourth = agreeing(spans, mentions, None)
    assert first == second and len({first, third, fourth}) == 3
    apart = agreeing(spans, mentions, [SearchFilter(("A",)), None, None, None])
    assert len(set(apart)) == 4


def test_the_mentions_of_a_doc_are_derived_once(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Doc] = []

    def counted(doc: Doc, spans_key: str | None = None) -> list[Span]:
        asked.append(doc)
        return mention_spans(doc, spans_key)

    for module in [m for name, m in sys.modules.items() if name.startswith("spacy_pel.")]:
        if hasattr(module, "mention_spans"):
            monkeypatch.setattr(module, "mention_spans", counted)
    linker = trained.nlp.get_pipe("proxy_linker")
    monkeypatch.setattr(linker, "agree", True)
    monkeypatch.setattr(linker, "label_types", {"TERM": ["Disease"]})
    docs = with_given_mentions(trained.nlp, TRAIN[:3])
    assert all(ent.kb_id_ for doc in linker.pipe(docs) for ent in doc.ents)
    assert len(asked) == 3
