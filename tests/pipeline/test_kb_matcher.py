"""The component that marks the names of a KB; tests/kb/test_name_finder.py has what a name is."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Span

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, build_kb
from spacy_pel.kb.change import add_entities

from ..conftest import ENTITIES


def matcher_in(kb: Path, **config) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("kb_matcher", config={"kb": str(kb), **config})
    return nlp


def test_it_marks_entities(tiny_kb: Path) -> None:
    doc = matcher_in(tiny_kb, label="TERM")(
        "Acetylsalicylic Acid helps MS, not ms; the Kidney's too."
    )
    assert [(ent.text, ent.label_) for ent in doc.ents] == [
        ("Acetylsalicylic Acid", "TERM"),
        ("MS", "TERM"),
        ("Kidney", "TERM"),
    ]


def test_it_leaves_the_entities_that_are_there(tiny_kb: Path) -> None:
    nlp = matcher_in(tiny_kb)
    doc = nlp.make_doc("The kidney and aspirin")
    doc.ents = [Span(doc, 0, 2, label="ORGAN")]
    doc = nlp.get_pipe("kb_matcher")(doc)
    assert [(e.text, e.label_) for e in doc.ents] == [
        ("The kidney", "ORGAN"),
        ("aspirin", "ENTITY"),
    ]


def test_spans_key_and_types(tiny_kb: Path) -> None:
    nlp = matcher_in(tiny_kb, spans_key="kb", types=["Disease"])
    doc = nlp("Aspirin for headache of the kidney")
    assert [span.text for span in doc.spans["kb"]] == ["headache"]
    assert not doc.ents
    with pytest.raises(PelError, match="Plant"):
        matcher_in(tiny_kb, types=["Plant"])("text")


def test_a_name_within_a_token_is_not_marked(tiny_kb: Path) -> None:
    nlp = matcher_in(tiny_kb)
    doc = nlp("aspirin@kidney aspirin")
    assert doc[0].text == "aspirin@kidney"
    assert [(ent.start, ent.end) for ent in doc.ents] == [(1, 2)]


def test_stop_words_are_those_of_the_language_unless_given(tmp_path: Path) -> None:
    kb = build_kb([Entity("1", "the"), Entity("2", "aspirin")], tmp_path / "kb").path
    text = "The aspirin"
    assert [ent.text for ent in matcher_in(kb)(text).ents] == ["aspirin"]
    assert [ent.text for ent in matcher_in(kb, stop_words=["Aspirin"])(text).ents] == ["The"]


def test_it_is_saved_without_its_names_and_finds_its_kb(tiny_kb: Path, tmp_path: Path) -> None:
    nlp = matcher_in(tiny_kb)
    text = "MS and aspirin"
    expected = [ent.text for ent in nlp(text).ents]
    assert expected == ["MS", "aspirin"]
    nlp.to_disk(tmp_path / "pipeline")
    assert [path.name for path in (tmp_path / "pipeline" / "kb_matcher").iterdir()] == ["kb.json"]
    unpacked = spacy.blank("en")
    unpacked.add_pipe("kb_matcher")
    for again in (spacy.load(tmp_path / "pipeline"), unpacked.from_bytes(nlp.to_bytes())):
        assert [ent.text for ent in again(text).ents] == expected
    other = build_kb([Entity("1", "patience")], tmp_path / "other").path
    moved = spacy.load(
        tmp_path / "pipeline", config={"components": {"kb_matcher": {"kb": str(other)}}}
    )
    assert [ent.text for ent in moved("MS and patience").ents] == ["patience"]
    moved.get_pipe("kb_matcher").set_kb(tiny_kb)
    assert [ent.text for ent in moved("MS and patience").ents] == ["MS"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("n_process, batch_size", [(1, 2), (2, 1)])
def test_pipe_and_calls_agree(tiny_kb: Path, n_process: int, batch_size: int) -> None:
    nlp = matcher_in(tiny_kb)
    texts = ["MS", "no", "", "aspirin and kidney"]
    expected = [[ent.text for ent in nlp(text).ents] for text in texts]
    docs = nlp.pipe(texts, n_process=n_process, batch_size=batch_size)
    assert [[ent.text for ent in doc.ents] for doc in docs] == expected


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_it_is_copied_after_it_was_used(tiny_kb: Path, copied) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("kb_matcher", config={"kb": str(tiny_kb)})
    text = "A woman with multiple sclerosis."
    before = [ent.text for ent in nlp(text).ents]
    assert before == [ent.text for ent in copied(nlp)(text).ents] != []


def test_names_and_ids_are_those_of_the_kb_as_it_was_opened(tmp_path: Path) -> None:
    folder = build_kb(ENTITIES, tmp_path / "kb").path
    nlp = spacy.blank("en")
    matcher = nlp.add_pipe("kb_matcher", config={"kb": str(folder)})
    assert not nlp("A case of long COVID.").ents
    add_entities(folder, [Entity("X1", "long COVID")])
    assert not nlp("A case of long COVID.").ents
    assert matcher.kb.refresh()
    assert [ent.text for ent in nlp("A case of long COVID.").ents] == ["long COVID"]
    assert nlp("aspirin")[0].ent_kb_id_ == "C05"
    add_entities(folder, [Entity("X2", "aspirin")])
    matcher.set_kb(folder)
    assert nlp("aspirin")[0].ent_kb_id_ == ""


def test_without_a_kb_it_says_what_to_do() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("kb_matcher")
    with pytest.raises(PelError, match='"kb_matcher" has no knowledge base; build one'):
        nlp("text")


def test_a_name_of_one_entity_gets_its_id(tiny_kb: Path) -> None:
    for key in (None, "kb"):
        doc = matcher_in(tiny_kb, spans_key=key)("Aspirin for cephalgia, MS and RA.")
        found = [(s.text, s.kb_id_, s.label_) for s in (doc.spans[key] if key else doc.ents)]
        assert found == [
            ("Aspirin", "C05", "ENTITY"),
            ("cephalgia", "C06", "ENTITY"),
            ("MS", "", "ENTITY"),
            ("RA", "", "ENTITY"),
        ]
    doc = matcher_in(tiny_kb, label=None)("Aspirin for cephalgia and MS.")
    assert [ent.label_ for ent in doc.ents] == ["Chemical", "Disease", "ENTITY"]
