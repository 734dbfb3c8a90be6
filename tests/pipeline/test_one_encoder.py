"""A linker on what the recogniser has read, and without it in another pipeline."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_pel.errors import PelError
from spacy_pel.models.architectures import entity_vectors
from spacy_pel.pipeline.doc_mentions import mentions_in_context, read_documents
from spacy_pel.pipeline.pipelines import read_by_upstream
from spacy_pel.pipeline.runtime import Runtime
from spacy_pel.text.entity_texts import EntityText
from spacy_pel.training.optimizer import AdamW

from ..conftest import with_mentions
from .conftest import CONFIG, TRAIN, embedded, examples, mentions_of, results
from .test_linker_that_listens import pipeline, weights

RECOGNISER = {"length": 32, "encoder": CONFIG["model"]["encoder"]}
LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": 32, "upstream": "kb_ner"}


@pytest.fixture(scope="module")
def nlp(kb: Path) -> Language:
    """Both trained, by spaCy's own update."""
    nlp = pipeline(kb, "kb_ner", RECOGNISER, LISTENER, {"kb": str(kb)})
    optimizer = AdamW(0.005)
    for _ in range(60):
        nlp.update(examples(nlp), sgd=optimizer)
    return embedded(nlp, kb)


@pytest.fixture(scope="module")
def folder(nlp: Language, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    nlp.to_disk(folder)
    return folder


def test_text_is_read_once_for_both(nlp: Language, folder: Path) -> None:
    texts = [text for text, _ in TRAIN]
    golds = [list(mentions.values()) for _, mentions in TRAIN]
    found = [[ent.kb_id_ for ent in doc.ents] for doc in nlp.pipe(texts)]
    assert np.mean([one == gold for one, gold in zip(found, golds)]) > 0.8
    assert results(spacy.load(folder).pipe(texts)) == results(nlp.pipe(texts))


def test_a_token_has_the_mean_of_the_states_of_its_words(nlp: Language) -> None:
    spaces = [False, False, True, True, False]
    recogniser = nlp.get_pipe("kb_ner")
    apart = recogniser(Doc(nlp.vocab, ["RA", "-", "related", " ", "pain"], spaces))
    words = ["RA-", "related", " ", "pain"]
    together = recogniser(Doc(nlp.vocab, words, [False, True, True, False]))
    assert apart.text == together.text
    np.testing.assert_allclose(together.tensor[0], apart.tensor[:2].mean(axis=0), atol=1e-6)
    np.testing.assert_array_equal(together.tensor[1:], apart.tensor[2:])
    assert not apart.tensor[3].any()


def test_the_recogniser_learns_from_the_linker(kb: Path) -> None:
    """From its alone: no example has a label that it learns."""
    nlp = pipeline(kb, "kb_ner", RECOGNISER, LISTENER, {"kb": str(kb)})
    before = weights(nlp, "kb_ner")
    data = examples(nlp)
    nlp.get_pipe("kb_ner").cfg["annotated"] = {"": []}
    for example in data:
        for ent in example.reference.ents:
            ent.label_ = "OTHER"
    optimizer = AdamW(0.005)
    losses = [nlp.update(data, sgd=optimizer)["proxy_linker"] for _ in range(8)]
    assert losses[-1] < 0.8 * losses[0]
    assert (weights(nlp, "kb_ner") != before).any()


def test_the_words_alone_can_be_added(nlp: Language, monkeypatch) -> None:
    [doc] = read_by_upstream(nlp, "proxy_linker", mentions_of(nlp, TRAIN[:1]))
    linker = nlp.get_pipe("proxy_linker")
    mentions = mentions_in_context(doc, doc.ents, read_documents(linker.model, [doc])[0][0], True)
    in_text = linker.retriever.predict(mentions)
    alone = entity_vectors(linker.retriever, [EntityText(ent.text) for ent in doc.ents])
    attrs = linker.retriever.attrs
    monkeypatch.setitem(attrs, "architecture", replace(attrs["architecture"], surface=True))
    both = linker.retriever.predict(mentions)
    expected = [(a + b) / np.linalg.norm(a + b) for a, b in zip(in_text, alone)]
    np.testing.assert_allclose(both, expected, atol=1e-6)
    linker.runtime = Runtime("onnx")
    with linker.runtime.use(linker.towers):
        np.testing.assert_allclose(linker.retriever.predict(mentions), both, atol=1e-3)
        monkeypatch.setattr(attrs["entity_reader"], "tokens", lambda own: [*own])  # of new texts
        again = linker.retriever.predict([mentions[-1], *mentions])
        np.testing.assert_allclose(again[1:], both, atol=1e-3)
    linker.runtime = Runtime("torch")


def best(docs) -> list:
    return [each[:2] for each in results(docs)]


def given(nlp: Language, spans_key: str | None = None) -> list[Doc]:
    """Docs of given mentions alone, without labels that the recogniser gives."""
    return [
        with_mentions(nlp, text, dict.fromkeys(mentions, ""), spans_key) for text, mentions in TRAIN
    ]


def test_given_mentions_are_linked_alone(nlp: Language, folder: Path) -> None:
    """On docs that nothing has read, as if the recogniser had; the mentions stay those given."""
    linker = nlp.get_pipe("proxy_linker")
    read = list(read_by_upstream(nlp, "proxy_linker", given(nlp)))
    places = [[ent.start for ent in doc.ents] for doc in given(nlp)]
    for link in (lambda docs: list(map(linker, docs)), lambda docs: list(linker.pipe(docs))):
        docs = link(given(nlp))
        assert results(docs) == results(link([doc.copy() for doc in read]))
        assert [[ent.start for ent in doc.ents] for doc in docs] == places
        assert not any(doc.tensor.size for doc in docs)
    other = [doc.copy() for doc in given(nlp)]
    for doc in other:  # another pipeline has read it
        doc.tensor = np.ones((len(doc), 7), dtype=np.float32)
    assert results(linker.pipe(other)) == results(docs)
    with nlp.select_pipes(enable=["proxy_linker"]):
        assert results(nlp.pipe(given(nlp))) == results(docs)
    without = spacy.load(folder, disable=["kb_ner"])
    assert results(without.pipe(given(without))) == results(docs)
    sourced = spacy.blank("en")
    sourced.add_pipe("proxy_linker", source=nlp)
    assert results(sourced.pipe(given(sourced))) == results(docs)
    in_group = spacy.load(folder, config={"components.proxy_linker.spans_key": "sc"})
    groups = list(in_group.get_pipe("proxy_linker").pipe(given(in_group, "sc")))
    spans = [span for doc in groups for span in doc.spans["sc"]]
    assert [s.kb_id_ for s in spans] == [e.kb_id_ for doc in docs for e in doc.ents]
    assert not any(doc.ents for doc in groups)


def test_the_linker_drops_the_states_that_it_alone_reads(nlp: Language, folder: Path) -> None:
    texts = [text for text, _ in TRAIN] + ["No mention."]
    docs = list(nlp.pipe(texts))
    expected = results(docs)
    assert not any(doc.tensor.size for doc in docs)
    assert results(nlp.get_pipe("proxy_linker").pipe(docs)) == expected  # read again
    other = spacy.load(folder)
    other.add_pipe("ner", config={"model": {"tok2vec": LISTENER}}).add_label("X")
    with other.select_pipes(disable=["ner"]):
        docs = list(other.pipe(texts))
    assert results(docs) == expected and all(doc.tensor.shape == (len(doc), 32) for doc in docs)


def test_a_linker_whose_recogniser_is_gone_names_the_remedy(folder: Path) -> None:
    nlp = spacy.load(folder, exclude=["kb_ner"])
    with pytest.raises(PelError, match='config={"path": PIPELINE}'):
        list(nlp.pipe(given(nlp)))


def test_another_pipeline_takes_the_linker_with_a_copy(
    nlp: Language, kb: Path, folder: Path, tmp_path: Path
) -> None:
    other = spacy.blank("en")
    other.add_pipe("proxy_linker", config={"path": str(folder)})
    read = read_by_upstream(nlp, "proxy_linker", mentions_of(nlp, TRAIN))
    expected = best(nlp.get_pipe("proxy_linker").pipe(read))
    docs = list(other.pipe(mentions_of(other, TRAIN)))
    assert best(docs) == expected
    assert not any(doc.tensor.size for doc in docs)  # what others put there stays
    other.to_disk(tmp_path / "other")
    (again := spacy.load(tmp_path / "other")).get_pipe("proxy_linker").set_kb(kb)
    assert best(again.pipe(mentions_of(again, TRAIN))) == expected
    in_memory = spacy.blank("en")
    in_memory.add_pipe("proxy_linker")
    in_memory.from_bytes(other.to_bytes())
    assert best(in_memory.pipe(mentions_of(in_memory, TRAIN))) == expected
