"""The component in use: its config, what it needs, and what it writes on a Doc."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy
from confection import ConfigValidationError
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span, SpanGroup

from spacy_pel.errors import PelError
from spacy_pel.jobs.embed import embed_kb
from spacy_pel.pipeline.factory import DEFAULTS

from .conftest import (
    TEST,
    TRAIN,
    Trained,
    brute_force,
    mentions_of,
    results,
    with_mentions,
)


@pytest.fixture
def linker(trained: Trained):
    return trained.nlp.get_pipe("proxy_linker")


# Config


def test_the_config_of_a_pipeline_is_complete() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker")
    config = nlp.config["components"]["proxy_linker"]
    assert set(DEFAULTS) | {"factory"} == set(config)
    again = spacy.util.load_model_from_config(nlp.config, auto_fill=False)
    assert again.get_pipe("proxy_linker").candidates == DEFAULTS["candidates"]
    assert nlp.config["training"]["score_weights"]["nel_recall_at_1"] == 1.0


@pytest.mark.parametrize(
    "config",
    [
        {"candidates": "many"},
        {"nil_threshold": "low"},
        {"name_dropout": "often"},
        {"overwrite": "perhaps"},
        {"kb": {"path": "KB"}},
        {"candidate": 3},
        {"model": {"pool": "mean"}},
        {"loss": {"@losses": "spacy-pel.ProxyLoss.v1", "alpha": "steep"}},
        {"regularizer": {"@misc": "spacy-pel.FGSM.v1", "epsilon": "small"}},
        {"negatives": {"@misc": "spacy-pel.RandomNegatives.v1", "n": "many"}},
        {"negatives": {"@misc": "spacy-pel.RandomNegatives.v1", "in_batch": "perhaps"}},
    ],
)
def test_a_wrong_type_or_an_unknown_key_is_refused(config) -> None:
    with pytest.raises(ConfigValidationError):
        spacy.blank("en").add_pipe("proxy_linker", config=config)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"row_kind": "word"}, 'unknown row kind "word"; choose one of entity, title, name'),
        ({"model": {"pooling": "max"}}, 'unknown pooling "max"; choose'),
    ],
)
def test_an_unknown_choice_is_refused(config, message) -> None:
    with pytest.raises(PelError, match=message):
        spacy.blank("en").add_pipe("proxy_linker", config=config)


def test_labels_are_not_its_business(linker) -> None:
    with pytest.raises(NotImplementedError, match="add them to the KB"):
        linker.add_label("DISEASE")


# What it needs


def test_without_weights_it_says_what_to_do() -> None:
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("proxy_linker")
    with pytest.raises(PelError, match='"proxy_linker" has no weights; train it with'):
        linker(mentions_of(nlp)[0])


def test_without_a_kb_it_says_what_to_do(linker) -> None:
    nlp = spacy.blank("en")
    bare = nlp.add_pipe("proxy_linker").from_bytes(linker.to_bytes(exclude=["kb"]))
    with pytest.raises(PelError, match='no knowledge base; build one with "python -m spacy pel'):
        bare(mentions_of(nlp)[0])


def test_a_kb_that_is_not_there_is_named(tmp_path: Path, linker) -> None:
    nlp = spacy.blank("en")
    config = {"kb": str(tmp_path / "none")}
    lost = nlp.add_pipe("proxy_linker", config=config)
    lost.from_bytes(linker.to_bytes(exclude=["kb"]))
    with pytest.raises(PelError, match=f"{tmp_path}/none"):
        lost(mentions_of(nlp)[0])
    with pytest.raises(PelError, match="no knowledge base here"):
        lost.set_kb(tmp_path)


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


# Linking


def test_it_has_learned_which_entity_is_meant(trained: Trained) -> None:
    texts = [*TRAIN, *TEST]
    linked = trained.nlp.pipe(mentions_of(trained.nlp, texts))
    for doc, (_, mentions) in zip(linked, texts):
        found = {ent.text: ent.kb_id_ for ent in doc.ents if mentions[ent.text] != "NIL"}
        assert found == {mention: id for mention, id in mentions.items() if id != "NIL"}


def test_candidates_are_those_of_an_exhaustive_search(trained: Trained, linker) -> None:
    docs = list(trained.nlp.pipe(mentions_of(trained.nlp)))
    for (text, mentions), doc in zip(TEST, docs):
        scores = brute_force(linker, text, *mentions)
        best = sorted(scores, key=lambda id: -scores[id])[: linker.candidates]
        (ent,) = doc.ents
        assert [c["id"] for c in ent._.kb_candidates] == best
        assert [c["score"] for c in ent._.kb_candidates] == pytest.approx(
            [scores[id] for id in best], abs=1e-5
        )


def test_what_is_written_on_the_entities(trained: Trained, linker) -> None:
    (doc,) = trained.nlp.pipe(mentions_of(trained.nlp, TEST[:1]))
    (ent,) = doc.ents
    assert ent.kb_id_ == ent._.kb_id == "C01" and ent.label_ == "TERM"
    assert [token.ent_kb_id_ for token in doc if token.ent_kb_id_] == ["C01"]
    cyst = trained.nlp(mentions_of(trained.nlp, TEST[2:3])[0]).ents[0]
    assert [token.ent_kb_id_ for token in cyst] == [cyst.kb_id_] * 2
    best = ent._.kb_candidates[0]
    assert best == {"id": "C01", "name": "multiple sclerosis", "score": ent._.kb_score}
    assert len(ent._.kb_candidates) == linker.candidates
    for candidate in ent._.kb_candidates:
        assert {key: type(value) for key, value in candidate.items()} == {
            "id": str,
            "name": str,
            "score": float,
        }
    scores = [candidate["score"] for candidate in ent._.kb_candidates]
    assert scores == sorted(scores, reverse=True)
    assert ent._.kb_ents == [(c["id"], c["score"]) for c in ent._.kb_candidates]


@pytest.mark.parametrize("batch_size", [3, 100])
def test_pipe_equals_call(trained: Trained, batch_size: int) -> None:
    nlp, texts = trained.nlp, [*TRAIN, *TEST, ("No mention here.", {}), ("", {})]
    one_by_one = results(nlp(doc) for doc in mentions_of(nlp, texts))
    piped = results(nlp.pipe(mentions_of(nlp, texts), batch_size=batch_size))
    assert [id for id, *_ in piped] == [id for id, *_ in one_by_one]
    for (_, score, _, candidates), (_, expected, _, others) in zip(piped, one_by_one):
        assert score == pytest.approx(expected, abs=1e-5)
        assert [c["score"] for c in candidates] == pytest.approx(
            [c["score"] for c in others], abs=1e-5
        )


def test_nothing_to_link() -> None:
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("proxy_linker")  # without weights or KB: neither is needed
    assert list(nlp.pipe([])) == []
    assert linker.predict([]) is None
    docs = list(nlp.pipe(["No mention here.", ""]))
    assert [doc.ents for doc in docs] == [(), ()]
    assert nlp(Doc(nlp.vocab)).text == ""


def test_a_mention_at_each_end_of_a_document(trained: Trained, linker) -> None:
    ends = [("liver cyst", ["liver cyst"]), ("RA or lung pain", ["RA", "lung pain"])]
    for text, mentions in ends:
        doc = trained.nlp(with_mentions(trained.nlp, text, dict.fromkeys(mentions, "")))
        for ent in doc.ents:
            scores = brute_force(linker, text, ent.text)
            assert ent.kb_id_ == max(scores, key=lambda id: scores[id])
            assert ent._.kb_score == pytest.approx(max(scores.values()), abs=1e-5)


def test_a_document_longer_than_the_encoder_reads(trained: Trained) -> None:
    text = "word " * 2000 + "The patient has a liver cyst."
    (doc,) = trained.nlp.pipe([with_mentions(trained.nlp, text, {"liver cyst": ""})])
    assert doc.ents[0].kb_id_ == "D00"


@pytest.mark.parametrize("threshold, id", [(None, ""), (-1e9, "NIL")])
def test_a_blank_mention_has_no_entity(
    trained: Trained, linker, monkeypatch, threshold, id
) -> None:
    monkeypatch.setattr(linker.fitted, "nil_threshold", threshold)
    doc = trained.nlp.make_doc("liver   \n cyst")
    doc.ents = [Span(doc, 0, 1, label="X"), Span(doc, 1, 2, label="X"), Span(doc, 2, 3, label="X")]
    first, blank, last = linker(doc).ents
    assert blank.text.isspace() and (blank.kb_id_, blank._.kb_id) == (id, id)
    assert (blank._.kb_score, blank._.kb_candidates, blank._.kb_ents) == (None, [], [])
    assert first.kb_id_ not in ("", "NIL") and last.kb_id_ not in ("", "NIL")


def test_ids_that_are_there_are_kept_without_overwrite(trained, linker, monkeypatch) -> None:
    text, gold = "Neither a liver cyst nor lung pain.", {"liver cyst": "X1", "lung pain": ""}
    replaced = trained.nlp(with_mentions(trained.nlp, text, gold))
    assert [ent.kb_id_ for ent in replaced.ents] == ["D00", "D11"]
    monkeypatch.setattr(linker, "overwrite", False)
    kept = trained.nlp(with_mentions(trained.nlp, text, gold))
    assert [ent.kb_id_ for ent in kept.ents] == ["X1", "D11"]
    assert [ent._.kb_id for ent in kept.ents] == ["X1", "D11"]


# Span groups


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
        assert span._.kb_ents[0] == (span._.kb_id, span._.kb_score)
    assert doc.spans["other"][0].kb_id_ == "" and doc.ents[0].kb_id_ == ""
    assert not any(token.ent_kb_id_ for token in doc)


def test_docs_without_the_group_stay_as_they_are(grouping: Language) -> None:
    without, empty = grouping.make_doc("No group at all."), grouping.make_doc("An empty group.")
    empty.spans["sc"] = []
    docs = list(grouping.pipe([without, grouped(grouping), empty]))
    assert "sc" not in docs[0].spans
    assert docs[1].spans["sc"][0].kb_id_ == "D00"
    assert len(docs[2].spans["sc"]) == 0


def test_ids_in_a_group_are_kept_without_overwrite(grouping, linker, monkeypatch) -> None:
    monkeypatch.setattr(linker, "overwrite", False)
    doc = grouping.make_doc("Neither liver cyst nor lung pain.")
    doc.spans["sc"] = [Span(doc, 1, 3, kb_id="X1"), Span(doc, 4, 6)]
    assert [span.kb_id_ for span in grouping(doc).spans["sc"]] == ["X1", "D11"]


# Travelling


def test_a_docbin_keeps_all(trained: Trained) -> None:
    docs = list(trained.nlp.pipe(mentions_of(trained.nlp)))
    data = DocBin(docs=docs, store_user_data=True).to_bytes()
    again = list(DocBin().from_bytes(data).get_docs(spacy.blank("en").vocab))
    assert results(again) == results(docs)
    assert [list(e._.kb_ents) for d in again for e in d.ents] == [
        e._.kb_ents for d in docs for e in d.ents
    ]
