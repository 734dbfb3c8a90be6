"""The component that marks the names of a KB; tests/kb/test_name_finder.py has what a name is."""

import copy
import pickle
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Span

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, build_kb
from spacy_pel.kb.change import change_entities

from ..conftest import ENTITIES


def matcher_in(kb: Path | None, **config) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("kb_matcher", config={"kb": kb and str(kb), **config})
    return nlp


def found(nlp: Language, text: str) -> list[str]:
    return [ent.text for ent in nlp(text).ents]


def test_it_marks_names_and_a_name_of_one_entity_gets_its_id(tiny_kb: Path) -> None:
    text = "Acetylsalicylic Acid for cephalgia, MS not ms; the Kidney's too."
    ids = {"Acetylsalicylic Acid": "C05", "cephalgia": "C06", "MS": "", "Kidney": "C07"}
    for key in (None, "kb"):
        doc = matcher_in(tiny_kb, spans_key=key, label="TERM")(text)
        spans = doc.spans[key] if key else doc.ents
        assert {span.text: span.kb_id_ for span in spans} == ids
        assert {span.label_ for span in spans} == {"TERM"} and bool(doc.ents) != bool(key)
    labels = [ent.label_ for ent in matcher_in(tiny_kb, label=None)(text).ents]
    assert labels == ["Chemical", "Disease", "ENTITY", "Anatomy"]


def test_a_name_does_not_go_beyond_a_blank_line(tiny_kb: Path) -> None:
    nlp = matcher_in(tiny_kb)
    assert found(nlp, "multiple\nsclerosis") == ["multiple\nsclerosis"]
    assert not found(nlp, "multiple\n\nsclerosis") + found(nlp, "multiple \n \n\n sclerosis")


def test_it_leaves_the_entities_that_are_there_and_marks_whole_tokens(tiny_kb: Path) -> None:
    nlp = matcher_in(tiny_kb)
    doc = nlp.make_doc("The kidney and aspirin@kidney aspirin")
    doc.ents = [Span(doc, 0, 2, label="ORGAN")]
    ents = nlp.get_pipe("kb_matcher")(doc).ents
    assert [(e.text, e.label_) for e in ents] == [("The kidney", "ORGAN"), ("aspirin", "ENTITY")]


def test_names_in_other_forms_of_their_words(tmp_path: Path) -> None:
    build_kb(ENTITIES, tmp_path / "kb", word_forms=True)
    doc = matcher_in(tmp_path / "kb")("Headaches of the renal kind")
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [("Headaches", "C06"), ("renal", "C07")]


def test_an_acronym_that_the_text_defines_is_read_as_its_long_form(tmp_path: Path) -> None:
    names = ["stem cell", "embryonic stem cell", "stem", "ES", "T"]
    entities = [Entity(str(n), name) for n, name in enumerate(names)]
    entities.append(Entity("5", "small interfering RNA", ("siRNA",)))
    build_kb(entities, tmp_path / "kb", word_forms=True)
    doc = matcher_in(tmp_path / "kb")(
        "Embryonic stem (ES) cells; ES cells. We saw stem cells (SCs) and SC-like, two SCs, a SCx."
    )
    assert [(ent.text, ent.kb_id_, ent._.read_as) for ent in doc.ents] == [
        ("stem", "2", None),
        ("ES cells", "1", "Embryonic stem cells"),
        ("stem cells", "0", None),
        ("SCs", "0", "stem cells"),
        ("SC", "0", "stem cells"),
        ("SCs", "0", "stem cells"),
    ]
    doc = matcher_in(tmp_path / "kb")("A short interfering RNA (siRNA), any siRNA.")
    assert [(ent.text, ent._.read_as) for ent in doc.ents] == [("siRNA", "siRNA")] * 2


def test_ordinary_words_of_lines_in_capitals_are_no_acronyms(tmp_path: Path) -> None:
    syndrome = Entity("C08", "Wiskott-Aldrich syndrome", ("WAS",))
    build_kb([*ENTITIES, syndrome], tmp_path / "kb")
    nlp = matcher_in(tmp_path / "kb")
    assert found(nlp, "HEADACHE WAS DUE TO MS") == ["HEADACHE", "MS"]
    assert found(nlp, "Often WAS, or MS") == ["WAS", "MS"]


def test_an_article_explains_its_acronyms(tmp_path: Path) -> None:
    entities = [Entity("0", "Ewing sarcoma", ("ES",)), Entity("1", "DNA")]
    build_kb(entities, tmp_path / "kb", word_forms=True)
    nlp, article = matcher_in(tmp_path / "kb"), "ES, DNA." + 1000 * " word"
    assert found(nlp, "ES, DNA.") == ["ES", "DNA"]
    assert found(nlp, article) == ["DNA"]
    assert found(nlp, f"{article} Ewing sarcomas") == ["ES", "DNA", "Ewing sarcomas"]


def test_an_article_explains_its_ordinary_words(tmp_path: Path) -> None:
    entities = [Entity("0", "reduction", ("reduction reaction",)), Entity("1", "oxidation")]
    build_kb(entities, tmp_path / "kb", word_forms=True)
    nlp, article = matcher_in(tmp_path / "kb"), "Reduced, reductions, oxidized." + 1000 * " word"
    assert found(nlp, "A reduced dose.") == ["reduced"]
    assert found(nlp, article) == ["oxidized"]
    explained = ["Reduced", "reductions", "oxidized", "reduction reaction"]
    assert found(nlp, f"{article} reduction reaction") == explained


def test_names_that_share_words(tiny_kb: Path) -> None:
    for nlp in (matcher_in(tiny_kb), matcher_in(tiny_kb, types=["Disease"])):
        ents = nlp("Multiple and disseminated sclerosis, or multiple atrium dextrum").ents[:2]
        assert [(ent.text, ent._.read_as, ent.kb_id_) for ent in ents] == [
            ("Multiple", "Multiple sclerosis", "C01"),
            ("disseminated sclerosis", None, "C01"),
        ]
    assert found(matcher_in(tiny_kb, types=["Anatomy"]), "multiple or disseminated sclerosis") == []


def test_nested_names_count_if_the_longer_one_is_below_or_has_no_parents(tmp_path: Path) -> None:
    entities = [
        Entity("C1", "ulcerative colitis", parents=("C2",)),
        *(Entity(id, name) for id, name in {"C2": "colitis", "C3": "nevus", "C5": "cell"}.items()),
        Entity("C4", "basal cell nevus", parents=("C2", "X")),
        Entity("C6", "big cell"),
    ]
    build_kb(entities, tmp_path / "kb")
    matcher = matcher_in(tmp_path / "kb", spans_key="kb", nested=True)
    doc = matcher("Ulcerative colitis, basal cell nevus, nevus, big cell")
    ids = [(span.text, span.kb_id_) for span in doc.spans["kb"]]
    assert ids[:3] == [("Ulcerative colitis", "C1"), ("colitis", "C2"), ("basal cell nevus", "C4")]
    assert ids[3:] == [("nevus", "C3"), ("big cell", "C6"), ("cell", "C5")]
    with pytest.raises(PelError, match="spans_key"):
        matcher_in(tmp_path / "kb", nested=True)


def test_types_and_stop_words(tiny_kb: Path, tmp_path: Path) -> None:
    text = "Aspirin for headache of the kidney"
    assert found(matcher_in(tiny_kb, types=["Disease"]), text) == ["headache"]
    with pytest.raises(PelError, match="Plant"):
        matcher_in(tiny_kb, types=["Plant"])("text")
    kb = build_kb([Entity("1", "the"), Entity("2", "aspirin")], tmp_path / "kb").path
    assert found(matcher_in(kb), "The aspirin") == ["aspirin"]  # those of the language
    assert found(matcher_in(kb, stop_words=["Aspirin"]), "The aspirin") == ["The"]


def test_it_is_saved_without_its_names_and_finds_its_kb(tiny_kb: Path, tmp_path: Path) -> None:
    nlp = matcher_in(tiny_kb)
    text = "MS and aspirin"
    expected = found(nlp, text)
    assert expected == ["MS", "aspirin"]
    nlp.to_disk(tmp_path / "pipeline")
    assert [path.name for path in (tmp_path / "pipeline" / "kb_matcher").iterdir()] == ["kb.json"]
    for again in (
        spacy.load(tmp_path / "pipeline"),
        matcher_in(None).from_bytes(nlp.to_bytes()),
        copy.deepcopy(nlp),
        pickle.loads(pickle.dumps(nlp)),
    ):
        assert found(again, text) == expected
    other = build_kb([Entity("1", "patience")], tmp_path / "other").path
    config = {"components": {"kb_matcher": {"kb": str(other)}}}
    moved = spacy.load(tmp_path / "pipeline", config=config)
    assert found(moved, "MS and patience") == ["patience"]
    moved.get_pipe("kb_matcher").set_kb(tiny_kb)
    assert found(moved, "MS and patience") == ["MS"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("n_process, batch_size", [(1, 2), (2, 1)])
def test_pipe_and_calls_agree(tiny_kb: Path, n_process: int, batch_size: int) -> None:
    nlp = matcher_in(tiny_kb)
    texts = ["MS", "no", "", "aspirin and kidney"]
    docs = nlp.pipe(texts, n_process=n_process, batch_size=batch_size)
    assert [[e.text for e in doc.ents] for doc in docs] == [found(nlp, text) for text in texts]


def test_names_and_ids_are_those_of_the_kb_as_it_was_opened(tmp_path: Path) -> None:
    folder = build_kb(ENTITIES, tmp_path / "kb").path
    nlp = matcher_in(folder)
    text = "A case of long COVID."
    assert not found(nlp, text)
    change_entities(folder, "add", [Entity("X1", "long COVID")])
    assert not found(nlp, text)
    matcher = nlp.get_pipe("kb_matcher")
    assert matcher.kb.refresh()
    assert found(nlp, text) == ["long COVID"]
    assert nlp("aspirin")[0].ent_kb_id_ == "C05"
    change_entities(folder, "add", [Entity("X2", "aspirin")])
    matcher.set_kb(folder)
    assert nlp("aspirin")[0].ent_kb_id_ == ""


def test_without_a_kb_it_says_what_to_do() -> None:
    with pytest.raises(PelError, match='"kb_matcher" has no knowledge base; build one'):
        matcher_in(None)("text")


def test_names_in_any_spelling_with_the_offsets_of_the_text(tmp_path: Path) -> None:
    names = ["Alzheimer's disease", "Löfgren syndrome", "beta-thalassemia", "δ-storage disease"]
    build_kb([Entity(f"C{n}", name) for n, name in enumerate(names)], tmp_path / "kb")
    for nlp in (matcher_in(tmp_path / "kb"), matcher_in(tmp_path / "kb", spans_key="kb")):
        written = [
            ("Alzheimer’s\u00a0disease", "C0"),
            ("Lofgren syndrome", "C1"),
            ("Lo\u0308fgren syn\u00addrome", "C1"),
            ("β\u2011thalassemia", "C2"),
            ("delta\u2013storage dis\u200bease", "C3"),
        ]
        text = "".join(f"A {name}, then " for name, _ in written)
        doc = nlp(text)
        spans = doc.spans.get("kb", doc.ents)
        assert [(span.text, span.kb_id_) for span in spans] == written
        doc = nlp("β\u2011thalassemia\u2011like")
        [span] = doc.spans.get("kb", doc.ents)
        assert (span._.read_as, span.kb_id_) == ("beta-thalassemia", "C2")  # no token ends there
