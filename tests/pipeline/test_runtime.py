import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_pel.errors import PelError
from spacy_pel.models.architectures import entity_vectors
from spacy_pel.models.onnx_states import OnnxStates
from spacy_pel.pipeline.runtime import Runtime, _fastest_on_cpu
from spacy_pel.text.entity_texts import EntityText

from .conftest import Trained, linked, mentions_of, train


def loaded(trained: Trained, runtime: str) -> Language:
    return spacy.load(trained.path, config={"components": {"proxy_linker": {"runtime": runtime}}})


def ids_and_scores(answers: list[list[Any]]) -> tuple[list[list[str]], np.ndarray]:
    candidates = [answer[3] for answer in answers]
    return (
        [[c["id"] for c in found] for found in candidates],
        np.array([[c["score"] for c in found] for found in candidates]),
    )


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[OnnxStates]:
    """The calls of ONNX Runtime."""
    calls: list[OnnxStates] = []
    compute = OnnxStates.__call__

    def counted(self: OnnxStates, *arguments):
        calls.append(self)
        return compute(self, *arguments)

    monkeypatch.setattr(OnnxStates, "__call__", counted)
    return calls


@pytest.mark.parametrize(("runtime", "tolerance"), [("onnx", 1e-4), ("onnx-int8", 0.05)])
def test_candidates_are_those_of_torch_and_entities_are_encoded_by_it(
    trained: Trained, passes: list, runtime: str, tolerance: float
) -> None:
    ids, scores = ids_and_scores(linked(trained.nlp))
    assert not passes
    nlp = loaded(trained, runtime)
    answers = linked(nlp)
    assert passes and linked(nlp, batch_size=1) == linked(nlp, batch_size=64)
    again, near = ids_and_scores(answers)
    np.testing.assert_allclose(near, scores, atol=tolerance)
    assert [i[0] for i in again] == [i[0] for i in ids]
    assert again == ids if runtime == "onnx" else not np.array_equal(near, scores)
    passes.clear()
    retrievers = [n.get_pipe("proxy_linker").retriever for n in (nlp, trained.nlp)]
    vectors, of_torch = (entity_vectors(each, [EntityText("liver pain")]) for each in retrievers)
    assert np.array_equal(vectors, of_torch) and not passes


def test_auto_is_what_is_fastest_here(trained: Trained, monkeypatch, caplog) -> None:
    _fastest_on_cpu.cache_clear()
    with caplog.at_level("INFO", logger="spacy_pel"):
        answers = linked(loaded(trained, "auto"))
        assert answers == linked(loaded(trained, "onnx-int8"))
        linked(loaded(trained, "auto"))
    assert [r.message for r in caplog.records] == ['runtime "auto" computes with "onnx-int8"']
    monkeypatch.setattr("spacy_pel.pipeline.runtime.find_spec", lambda name: None)
    _fastest_on_cpu.cache_clear()
    assert linked(loaded(trained, "auto")) == linked(trained.nlp)
    _fastest_on_cpu.cache_clear()


def test_exact_digits_do_not_depend_on_batches(trained: Trained) -> None:
    nlp = loaded(trained, "exact")
    one, *others = (linked(nlp, batch_size=size) for size in (1, 7, 64))
    assert others == [one, one]
    assert one == linked(trained.nlp, batch_size=1)  # it is torch


def test_a_batch_ends_at_its_docs_or_tokens(monkeypatch) -> None:
    monkeypatch.setattr("spacy_pel.pipeline.runtime.MAX_TOKENS", 5)
    docs = [Doc(Vocab(), words=["w"] * n) for n in (2, 2, 2, 9, 1, 1, 1, 1)]
    for name, lengths in (
        ("torch", [[2, 2], [2], [9], [1, 1, 1], [1]]),
        ("exact", [[2], [2], [2], [9], [1], [1], [1], [1]]),
    ):
        batches = Runtime(name).batches(iter(docs), 3)
        assert [list(map(len, batch)) for batch in batches] == lengths


def test_training_is_torchs_and_its_weights_are_taken_afterwards(
    trained: Trained, passes: list
) -> None:
    nlp = loaded(trained, "onnx")
    linker = nlp.get_pipe("proxy_linker")
    before = linker.predict(mentions_of(nlp))[1]
    passes.clear()
    train(nlp, 2)
    list(nlp.pipe(mentions_of(nlp)))  # as evaluation in training does
    assert not passes
    linker.finish_training()
    linker._fitting_kb = linker.kb.fingerprint  # the KB's vectors are of old weights
    links = linker.predict(mentions_of(nlp))[1]
    assert passes
    linker.runtime = Runtime("torch")
    expected = linker.predict(mentions_of(nlp))[1]
    np.testing.assert_allclose(links.scores, expected.scores, atol=1e-4)
    assert np.abs(links.scores - before.scores).max() > 1e-3


def test_it_is_a_setting_and_not_of_the_weights(trained: Trained, tmp_path: Path) -> None:
    nlp = loaded(trained, "onnx")
    linked(nlp)
    of_torch = trained.nlp.get_pipe("proxy_linker")
    assert nlp.get_pipe("proxy_linker").to_bytes() == of_torch.to_bytes()
    nlp.to_disk(tmp_path)
    assert spacy.load(tmp_path).get_pipe("proxy_linker").runtime.name == "onnx"
    with pytest.raises(PelError, match='unknown runtime "int8"; choose "torch", "exact", "onnx"'):
        loaded(trained, "int8")


def test_without_onnx_runtime_it_says_what_to_install(trained: Trained, monkeypatch) -> None:
    nlp = loaded(trained, "onnx")
    monkeypatch.setitem(sys.modules, "spacy_pel.models.onnx_states", None)
    with pytest.raises(PelError, match=r'pip install "spacy-pel\[onnx\]"'):
        linked(nlp)
