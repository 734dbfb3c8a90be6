"""A linker on what the pipeline's own tok2vec or transformer has read."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.pipeline.tok2vec import DEFAULT_TOK2VEC_MODEL
from thinc.api import Adam, fix_random_seed

from spacy_pel.batch.embed import embed_kb
from spacy_pel.curation.learn_mentions import learn_mentions_of
from spacy_pel.errors import PelError
from spacy_pel.kb import build_kb
from spacy_pel.pipeline.doc_mentions import read_documents
from spacy_pel.text.mention_inputs import MentionInContext

from ..towers import save_bert
from .conftest import CONFIG, PROBLEM, TRAIN, embedded, examples, linked, mentions_of, train

WIDTH = 24
OWN = {"width": WIDTH, "depth": 1, "embed_size": 300, "window_size": 2}
TOK2VEC = {**DEFAULT_TOK2VEC_MODEL, **OWN}
LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": WIDTH, "upstream": "tok2vec"}


def pipeline(
    kb: Path,
    upstream: str,
    model: dict[str, Any],
    listener: dict[str, Any],
    more: dict[str, Any] = {},
) -> Language:
    """A pipeline, initialised, of a component that reads and a linker that listens to it."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe(upstream, config={"model": model, **more})
    scratch = {"@misc": "spacy-pel.ScratchEncoder.v1", **CONFIG["model"]["encoder"]}
    shared = {
        "@architectures": "spacy-pel.SharedEncoder.v1",
        "tok2vec": listener,
        "encoder": scratch,
        "entity_length": 32,
    }
    nlp.add_pipe("proxy_linker", config={**CONFIG, "model": shared, "kb": str(kb)})
    nlp.initialize(lambda: examples(nlp))
    return nlp


def weights(nlp: Language, name: str) -> np.ndarray:
    """Of thinc's layers, and of torch's."""
    model = nlp.get_pipe(name).model
    own = [node.get_param(key) for node in model.walk() for key in node.param_names]
    torch = [p.detach() for n in model.walk() for s in n.shims for p in s._model.parameters()]
    return np.concatenate([np.ravel(each) for each in [*own, *torch]])


@pytest.fixture(scope="module")
def trained(kb: Path) -> Language:
    nlp = pipeline(kb, "tok2vec", TOK2VEC, LISTENER)
    train(nlp, 60)
    return embedded(nlp, kb)


def test_it_learns_and_batches_do_not_matter(trained: Language) -> None:
    golds = [id for _, mentions in TRAIN for id in mentions.values()]
    first, *others = (linked(trained, batch_size=size) for size in (7, 1, 64))
    hits = [found[0] == gold for found, gold in zip(first, golds, strict=True)]
    assert np.mean(hits) > 0.9  # MS and RA, which only their sentences tell apart, among them
    for found in others:
        assert [id for id, *_ in found] == [id for id, *_ in first]
        scores = [[score for _, score, *_ in each] for each in (found, first)]
        np.testing.assert_allclose(*scores, atol=1e-5)


def test_saved_loaded_and_sourced_it_is_the_same(trained: Language, tmp_path: Path) -> None:
    trained.to_disk(tmp_path)
    nlp, sourced = spacy.load(tmp_path), spacy.blank("en")
    for name in ("tok2vec", "proxy_linker"):
        sourced.add_pipe(name, source=nlp)
    # As spaCy sends it to a process that is not forked.
    linker = nlp.get_pipe("proxy_linker")
    spawned = pickle.loads(pickle.dumps(linker))
    assert spawned.model.get_ref("tok2vec") and len(spawned.kb) == len(linker.kb)
    assert linked(nlp) == linked(sourced) == linked(trained)


def test_mentions_are_learnt_as_the_shared_component_reads_them(
    trained: Language, kb: Path, tmp_path: Path
) -> None:
    own = shutil.copytree(kb, tmp_path / "kb")
    corpus, text = tmp_path / "gold.pubtator", "She has MS in her brain."
    corpus.write_text(f"1|t|{text}\n1\t8\t10\tMS\tT\tC01\n", "utf8")
    learn_mentions_of(own, [corpus], nlp=trained)
    linker = trained.get_pipe("proxy_linker")
    with pytest.raises(PelError, match="give its pipeline"):
        embed_kb(own, linker, dtype="float16")
    doc = trained.get_pipe("tok2vec")(trained.make_doc(text))
    (document,), _ = read_documents(linker.model, [doc])
    (query,) = linker.retriever.predict([MentionInContext(text, 8, 10, document)])
    with embed_kb(own, linker, nlp=trained, dtype="float16") as opened:
        near = opened.mentions.nearest(query[None], 1)
        np.testing.assert_allclose(near.scores, [[1.0]], atol=1e-5)


def test_with_a_reader_of_its_own_it_is_neither_trained_nor_saved(
    trained: Language, kb: Path, tmp_path: Path
) -> None:
    trained.to_disk(tmp_path / "a")
    nlp = spacy.load(tmp_path / "a")
    nlp.replace_listeners("tok2vec", "proxy_linker", ["model.tok2vec"])
    with pytest.raises(PelError, match="do not replace it"):
        nlp.to_disk(tmp_path / "b")
    with pytest.raises(PelError, match="use a listener"):
        pipeline(kb, "tok2vec", TOK2VEC, TOK2VEC)


@pytest.mark.parametrize("frozen", [True, False])
def test_what_is_not_frozen_learns_from_the_linker(kb: Path, frozen: bool) -> None:
    nlp = pipeline(kb, "tok2vec", TOK2VEC, LISTENER)
    before = weights(nlp, "tok2vec")
    linker = weights(nlp, "proxy_linker")
    options = {"exclude": ["tok2vec"], "annotates": ["tok2vec"]} if frozen else {}
    optimizer = Adam(0.005)
    for _ in range(2):  # spaCy's update changes an upstream component by the gradients of before
        nlp.update(examples(nlp), sgd=optimizer, **options)
    assert (weights(nlp, "tok2vec") == before).all() == frozen
    assert (weights(nlp, "proxy_linker") != linker).any()


def test_what_was_not_read_is_told(trained: Language, tmp_path: Path) -> None:
    with pytest.raises(PelError, match="has not read this doc; run the pipeline with it"):
        trained.get_pipe("proxy_linker").predict(mentions_of(trained, TRAIN[:1]))
    trained.to_disk(tmp_path)
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker", config={"path": str(tmp_path)})
    with pytest.raises(PelError, match="load the whole pipeline"):
        list(nlp.pipe(mentions_of(nlp, TRAIN[:1])))


def test_a_linker_shares_a_transformer_and_trains_it(
    kb: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("transformer", config={"model": {"name": save_bert(tmp_path)}})
    shared = {
        "@architectures": "spacy-pel.SharedEncoder.v1",
        "tok2vec": {
            "@architectures": "spacy-transformers.TransformerListener.v1",
            "grad_factor": 1.0,
            "pooling": {"@layers": "reduce_mean.v1"},
        },
        "encoder": {"@misc": "spacy-pel.TrainedEncoder.v1", "path": str(tiny_folder)},
    }
    nlp.add_pipe("proxy_linker", config={"kb": str(kb), "model": shared})
    nlp.initialize(lambda: examples(nlp))
    before = weights(nlp, "transformer")
    train(nlp, 2)
    assert (weights(nlp, "transformer") != before).any()
    embedded(nlp, build_kb(PROBLEM, tmp_path / "kb").path)
    blank, empty, _ = nlp.pipe([nlp.make_doc("  "), nlp.make_doc(""), *mentions_of(nlp, TRAIN[:1])])
    assert blank.ents == empty.ents == ()  # though a transformer has no states of blanks
    nlp.to_disk(tmp_path / "pipeline")
    assert linked(spacy.load(tmp_path / "pipeline")) == linked(nlp)
