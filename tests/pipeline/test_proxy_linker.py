from pathlib import Path

import pytest
import spacy
from confection import ConfigValidationError
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span, SpanGroup

from spacy_pel.batch.embed import embed_kb
from spacy_pel.errors import PelError
from spacy_pel.pipeline.factory import DEFAULTS

from .conftest import TEST, TRAIN, Trained, brute_force, mentions_of, results, with_mentions


@pytest.fixture
def linker(trained: Trained):
    return trained.nlp.get_pipe("proxy_linker")


def test_the_config_of_a_pipeline_is_complete() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker")
    config = nlp.config["components"]["proxy_linker"]
    assert set(DEFAULTS) | {"factory"} == set(config)
    again = spacy.util.load_model_from_config(nlp.config, auto_fill=False)
    linker = again.get_pipe("proxy_linker")
    assert (linker.search.candidates, linker.training.loss.alpha) == (DEFAULTS["candidates"], 32)
    assert nlp.config["training"]["score_weights"]["nel_recall_at_1"] == 1.0


CHANGED = {
    "spans_key": "sc",
    "types": ["T047"],
    "label_types": {"D": ["T047"]},
    "sure_probability": None,
    "one_entity_per_name": True,
    "candidates": 7,
    "threshold": 0.5,
    "regularizer": None,
}


def test_a_setting_of_the_config_is_an_attribute_and_is_saved(tmp_path) -> None:
    made = spacy.blank("en")
    made.add_pipe("proxy_linker", config=CHANGED)
    made.to_disk(tmp_path / "pipeline")
    for nlp in (made, spacy.load(tmp_path / "pipeline")):
        linker = nlp.get_pipe("proxy_linker")
        settings = {}
        for group in (linker, linker.search, linker.output, linker.training):
            settings |= {name: getattr(group, name) for name in CHANGED if hasattr(group, name)}
        assert settings == CHANGED


@pytest.mark.parametrize(
    "config",
    [{"candidates": "many"}, {"candidate": 3}, {"index_unit": "word"}]
    + [{"candidates": n} for n in (-1, 0, 1_000_000_000)],
)
def test_a_wrong_type_or_an_unknown_key_or_choice_is_refused(config) -> None:
    with pytest.raises((ConfigValidationError, PelError)):
        spacy.blank("en").add_pipe("proxy_linker", config=config)


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("types", ["Drug"], "no semantic type 'Drug'.*'Anatomy', 'Chemical', 'Disease'"),
        ("label_types", {"TERM": ["Disease"], "X": ["Drug"]}, "no semantic type 'Drug'"),
        ("sources", ["MeSH"], "no entity comes from 'MeSH'"),
        ("xrefs", ["ICD10CM"], "no entity has a code of 'ICD10CM'"),
    ],
)
def test_a_setting_that_the_kb_lacks_is_told_at_each_use(trained, setting, value, told) -> None:
    nlp = spacy.load(trained.path)
    linker = nlp.get_pipe("proxy_linker")
    group = linker.output if setting == "xrefs" else linker.search
    setattr(group, setting, value)
    for _ in range(2):
        with pytest.raises(PelError, match=told):
            linker(mentions_of(nlp)[0])
    setattr(group, setting, None)
    assert linker(mentions_of(nlp)[0]).ents[0].kb_id_


def test_a_label_that_no_mention_has_is_told_once(trained, caplog) -> None:
    nlp = spacy.load(trained.path)
    nlp.get_pipe("proxy_linker").search.label_types = {"Term": ["Disease"], "TERM": ["Disease"]}
    list(nlp.pipe(mentions_of(nlp), batch_size=1))
    assert "names 'Term', but the labels of mentions are 'TERM'" in caplog.text
    assert len(caplog.records) == 1


def test_a_kb_that_is_not_there_is_told_when_a_linker_is_opened(trained, tmp_path) -> None:
    config = {"path": str(trained.path), "kb": str(tmp_path / "none")}
    with pytest.raises(PelError, match="no knowledge base here"):
        spacy.blank("en").add_pipe("proxy_linker", config=config)


def test_without_weights_or_a_kb_it_says_what_to_do(linker, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    bare = nlp.add_pipe("proxy_linker")
    with pytest.raises(PelError, match='"proxy_linker" has no weights; train it with'):
        bare(mentions_of(nlp)[0])
    bare.from_bytes(linker.to_bytes(exclude=["kb"]))
    with pytest.raises(PelError, match='no knowledge base; build one with "python -m spacy pel'):
        bare(mentions_of(nlp)[0])
    with pytest.raises(PelError, match="no knowledge base here"):
        bare.set_kb(tmp_path)


def test_a_kb_without_the_vectors_of_this_encoder_is_refused(tiny_nlp, bare_kb, trained) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    command = f"run: python -m spacy pel kb embed {bare_kb.path} PIPELINE"
    linker.set_kb(bare_kb.path)
    with pytest.raises(PelError, match=f"has no vectors; {command}"):
        linker(mentions_of(tiny_nlp)[0])
    embed_kb(bare_kb.path, trained.nlp.get_pipe("proxy_linker"))
    linker.set_kb(bare_kb.path)
    with pytest.raises(PelError, match=f"made by another encoder .*; {command}"):
        linker(mentions_of(tiny_nlp)[0])
    embed_kb(bare_kb.path, linker)
    linker.set_kb(bare_kb.path)
    assert linker(mentions_of(tiny_nlp)[0]).ents[0].kb_id_ in bare_kb


def test_what_is_written_are_the_candidates_of_an_exhaustive_search(
    trained: Trained, linker
) -> None:
    ends = [("liver cyst", {"liver cyst": "D00"})]  # it begins and ends the text
    long = [("word " * 2000 + "The patient has a liver cyst.", {"liver cyst": "D00"})]
    texts = [*TEST, *ends, *long]
    docs = list(trained.nlp.pipe(mentions_of(trained.nlp, texts)))
    for (text, mentions), doc in zip(texts, docs):
        ((mention, id),), (ent,) = mentions.items(), doc.ents
        scores = brute_force(linker, text, mention)
        best = sorted(scores, key=lambda id: -scores[id])[: linker.search.candidates]
        assert (ent.kb_id_, ent._.kb_id, best[0], ent.label_) == (id, id, id, "TERM")
        assert {token.ent_kb_id_ for token in ent} == {id}
        assert [c["id"] for c in ent._.kb_candidates] == best
        assert [c["score"] for c in ent._.kb_candidates] == pytest.approx(
            [scores[id] for id in best], abs=1e-5
        )
        named = {"id": id, "name": linker.kb[id].canonical_name, "score": ent._.kb_score}
        assert ent._.kb_candidates[0] == named
        assert ent._.kb_ents == [(c["id"], c["score"]) for c in ent._.kb_candidates]
        assert {type(score) for _, score in ent._.kb_ents} == {float}
    data = DocBin(docs=docs, store_user_data=True).to_bytes()
    again = list(DocBin().from_bytes(data).get_docs(spacy.blank("en").vocab))
    assert results(again) == results(docs)


@pytest.mark.parametrize("batch_size", [3, 100])
def test_pipe_equals_call(trained: Trained, batch_size: int) -> None:
    nlp, texts = trained.nlp, [*TRAIN, *TEST, ("No mention here.", {}), ("", {})]
    one_by_one = results(nlp(doc) for doc in mentions_of(nlp, texts))
    piped = results(nlp.pipe(mentions_of(nlp, texts), batch_size=batch_size))
    for (id, _, _, candidates), (expected, _, _, others) in zip(piped, one_by_one, strict=True):
        assert id == expected
        scores = [c["score"] for c in others]
        assert [c["score"] for c in candidates] == pytest.approx(scores, abs=1e-5)


def test_nothing_to_link() -> None:
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("proxy_linker")  # without weights or KB: neither is needed
    assert list(nlp.pipe([])) == [] and linker.predict([]) is None
    assert [doc.ents for doc in nlp.pipe(["No mention here.", ""])] == [(), ()]
    assert nlp(Doc(nlp.vocab)).text == ""


@pytest.mark.parametrize("threshold, id", [(None, ""), (-1e9, "NIL")])
def test_a_blank_mention_has_no_entity(
    trained: Trained, linker, monkeypatch, threshold, id
) -> None:
    monkeypatch.setattr(linker.fitted, "nil_threshold", threshold)
    doc = trained.nlp.make_doc("liver   \n cyst")
    doc.ents = [Span(doc, place, place + 1, label="X") for place in range(3)]
    first, blank, last = linker(doc).ents
    assert blank.text.isspace() and (blank.kb_id_, blank._.kb_id) == (id, id)
    assert (blank._.kb_score, blank._.kb_candidates, blank._.kb_ents) == (None, [], [])
    assert first.kb_id_ not in ("", "NIL") and last.kb_id_ not in ("", "NIL")


def test_a_misspelled_name_is_linked_as_the_name(tiny_nlp: Language) -> None:
    docs = [tiny_nlp.make_doc(f"Severe {word} again.") for word in ("headache", "haedache")]
    for doc in docs:
        doc.set_ents([Span(doc, 1, 2, "TERM")])
    right, wrong = (tiny_nlp.get_pipe("proxy_linker")(doc).ents[0] for doc in docs)
    assert wrong._.kb_id == right._.kb_id == "C06"
    assert wrong.text == "haedache"


@pytest.mark.parametrize("spans_key", [None, "sc"])
def test_ids_that_are_there_are_kept_without_overwrite(
    trained: Trained, linker, monkeypatch, spans_key: str | None
) -> None:
    monkeypatch.setattr(linker, "spans_key", spans_key)
    text, given = "Neither a liver cyst nor lung pain.", {"liver cyst": "X1", "lung pain": ""}
    for overwrite, first in ((True, "D00"), (False, "X1")):
        monkeypatch.setattr(linker.output, "overwrite", overwrite)
        doc = linker(with_mentions(trained.nlp, text, given, spans_key))
        spans = doc.spans[spans_key] if spans_key else doc.ents
        assert [span.kb_id_ for span in spans] == [first, "D11"]
        assert [span._.kb_id for span in spans] == [first, "D11"]


@pytest.fixture
def grouping(trained: Trained, linker, monkeypatch) -> Language:
    monkeypatch.setattr(linker, "spans_key", "sc")
    return trained.nlp


def grouped(nlp: Language) -> Doc:
    """A doc with a nested, an overlapping and an equal span, in no order, with ids and attrs."""
    doc = nlp.make_doc("The patient has liver cyst pain.")
    places = [(3, 5, "FINDING", "a"), (3, 6, "FINDING", "b"), (4, 6, "OTHER", ""), (3, 4, "", "d")]
    spans = [Span(doc, start, end, label=label, span_id=id) for start, end, label, id in places]
    spans.append(Span(doc, 3, 5, label="AGAIN"))
    doc.spans["sc"] = SpanGroup(doc, name="sc", attrs={"source": "hand"}, spans=spans)
    doc.spans["other"] = [doc[0:1]]
    doc.ents = [Span(doc, 0, 2, label="PERSON")]
    return doc


def test_overlapping_spans_are_linked_each(grouping: Language) -> None:
    untouched, doc = grouped(grouping), grouping(grouped(grouping))
    before, after = untouched.spans["sc"], doc.spans["sc"]
    assert [(s.start, s.end, s.label_, s.id_) for s in after] == [
        (s.start, s.end, s.label_, s.id_) for s in before
    ]
    assert after.attrs == {"source": "hand"} and after.name == "sc"
    assert after[0].kb_id_ == after[4].kb_id_ == "D00"
    for span in after:
        assert span.kb_id_ == span._.kb_id == span._.kb_candidates[0]["id"]
    assert doc.spans["other"][0].kb_id_ == "" and doc.ents[0].kb_id_ == ""
    assert not any(token.ent_kb_id_ for token in doc)


def test_docs_without_the_group_stay_as_they_are(grouping: Language) -> None:
    without, empty = grouping.make_doc("No group at all."), grouping.make_doc("An empty group.")
    empty.spans["sc"] = []
    docs = list(grouping.pipe([without, grouped(grouping), empty]))
    assert "sc" not in docs[0].spans and len(docs[2].spans["sc"]) == 0
    assert docs[1].spans["sc"][0].kb_id_ == "D00"


def test_a_setting_outside_of_its_group_is_refused(tiny_nlp: Language) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    with pytest.raises(PelError, match=r"set linker\.output\.threshold"):
        linker.threshold = 0.1
    linker.output.threshold = 0.1
