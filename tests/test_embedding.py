"""The vectors of a KB are the retriever's, row by row; a failure leaves the KB as it was."""

from __future__ import annotations

import numpy as np
import pytest
import spacy
from spacy.language import Language

from spacy_pel.embedding import embed_kb, is_embedded
from spacy_pel.errors import PelError
from spacy_pel.inputs import EntityText
from spacy_pel.kb import KnowledgeBase

from .conftest import ENTITIES


@pytest.fixture
def linker(tiny_nlp: Language):
    return tiny_nlp.get_pipe("proxy_linker")


def test_a_row_a_name(linker, bare_kb: KnowledgeBase) -> None:
    kb = embed_kb(bare_kb.path, linker)
    assert kb.row_kind == "name"
    assert kb.row_entities.tolist() == [
        number for number, entity in enumerate(ENTITIES) for _ in entity.names
    ]
    text = EntityText("cephalgia", "Disease", "headache")
    found = kb.search(linker.retriever.entity_vectors([text]), 1)
    assert kb.labels(found.numbers[0]) == [("C06", "headache")]
    np.testing.assert_allclose(found.scores, 1, atol=1e-5)


def test_a_row_an_entity(linker, bare_kb: KnowledgeBase) -> None:
    linker.cfg["row_kind"] = "entity"
    kb = embed_kb(bare_kb.path, linker)
    assert kb.row_kind == "entity"
    assert kb.row_entities.tolist() == list(range(len(ENTITIES)))


def test_progress_counts_every_entity_once(linker, bare_kb: KnowledgeBase, monkeypatch) -> None:
    monkeypatch.setattr("spacy_pel.proxies.CHUNK", 3)
    done: list[int] = []
    embed_kb(bare_kb.path, linker, progress=done.append)
    assert done == [3, 3, 1]


def test_is_embedded_asks_for_encoder_and_rows(linker, bare_kb: KnowledgeBase) -> None:
    assert not is_embedded(bare_kb, linker)
    kb = embed_kb(bare_kb.path, linker)
    assert is_embedded(kb, linker)
    linker.cfg["row_kind"] = "entity"
    assert not is_embedded(kb, linker)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_leaves_the_old_vectors(
    linker, bare_kb: KnowledgeBase, error: type[BaseException]
) -> None:
    before = embed_kb(bare_kb.path, linker)
    files = {path.name: path.read_bytes() for path in bare_kb.path.iterdir()}

    def interrupt(_: int) -> None:
        raise error

    linker.cfg["row_kind"] = "entity"
    with pytest.raises(error):
        embed_kb(bare_kb.path, linker, progress=interrupt)
    assert {path.name: path.read_bytes() for path in bare_kb.path.iterdir()} == files
    assert KnowledgeBase.open(bare_kb.path).manifest == before.manifest


def test_a_linker_without_weights_is_refused(bare_kb: KnowledgeBase) -> None:
    linker = spacy.blank("en").add_pipe("proxy_linker")
    with pytest.raises(PelError, match="has no weights; train it"):
        embed_kb(bare_kb.path, linker)


def test_a_folder_without_a_kb_is_refused(linker, tmp_path) -> None:
    with pytest.raises(PelError, match="no knowledge base here; build one"):
        embed_kb(tmp_path, linker)
