import shutil
from pathlib import Path

import numpy as np
import pytest
import spacy

from spacy_pel.batch.embed import KBEncoder, embed_kb
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors
from spacy_pel.kb.change import change_entities, remove_entities
from spacy_pel.models.architectures import entity_vectors
from spacy_pel.text import entity_texts

from ..conftest import ENTITIES
from .conftest import Told, files

pytestmark = pytest.mark.usefixtures("small_chunks")


def assert_rows_of(kb: KnowledgeBase, entities: list[Entity], linker) -> None:
    """A KB has a row for each name of these entities, by the retriever."""
    numbers = kb.numbers_by_id()
    vectors, places = kb.rows(numbers)
    assert kb.index_unit == "name"
    ids = [entity.concept_id for entity in entities for _ in entity.names]
    assert [id for id, _ in kb.labels(numbers[places])] == ids
    texts = [text for entity in entities for text in entity_texts.proxy_texts(entity, "name")]
    np.testing.assert_allclose(vectors, entity_vectors(linker.retriever, texts), atol=1e-5)


def test_the_next_run_goes_on_where_it_broke_off(
    linker, bare_kb: KnowledgeBase, tmp_path: Path, encoded: list[str], caplog, monkeypatch
) -> None:
    before = files(bare_kb.path)
    whole = embed_kb(shutil.copytree(bare_kb.path, tmp_path / "whole"), linker)
    with pytest.raises(KeyboardInterrupt):
        embed_kb(bare_kb.path, linker, progress=Told(2))
    assert files(bare_kb.path) == before
    encoded.clear()
    bar = Told()
    with pytest.raises(ZeroDivisionError), monkeypatch.context() as patch:
        writing = "spacy_pel.batch.embed.write_vectors"
        patch.setattr(writing, lambda path, batches, **_: [*batches, 1 / 0])
        embed_kb(bare_kb.path, linker, progress=bar)
    assert (bar.total, bar.initial, bar.updates) == (7, 6, [1])
    kb = embed_kb(bare_kb.path, linker)
    assert encoded == list(ENTITIES[6].names)
    assert caplog.messages == [f"resuming: {n} of 3 blocks done" for n in (2, 3)]
    assert files(kb.path) == files(whole.path)
    assert not [path for path in kb.path.iterdir() if path.is_dir()]


def test_each_name_of_a_changed_kb_has_a_row(linker, bare_kb: KnowledgeBase) -> None:
    new = [Entity("C00", "fever"), Entity("C08", "cough")]
    change_entities(bare_kb.path, "add", new)
    remove_entities(bare_kb.path, ["C02"])
    bar = Told()
    kb = embed_kb(bare_kb.path, linker, progress=bar)
    assert (bar.total, bar.initial, bar.updates) == (8, 0, [3, 3, 2])
    assert kb.vectors.added is None
    assert_rows_of(kb, [new[0], ENTITIES[0], *ENTITIES[2:], new[1]], linker)


def test_nobody_changes_a_kb_that_is_being_embedded(linker, bare_kb: KnowledgeBase) -> None:
    class Change(Told):
        def update(self, n: int) -> None:
            for change in (
                lambda: change_entities(bare_kb.path, "add", [Entity("C00", "fever")]),
                lambda: embed_kb(bare_kb.path, linker),
            ):
                with pytest.raises(PelError, match="is writing to it; wait until that has ended"):
                    change()
            super().update(n)

    bar = Change()
    embed_kb(bare_kb.path, linker, progress=bar)
    assert len(bar.updates) == 3


def test_a_change_before_embedding_begins_is_noticed(linker, bare_kb, monkeypatch) -> None:
    """Between reading what there is and keeping others out."""

    def write(*arguments, **settings):
        build_kb(ENTITIES[1:], bare_kb.path)
        return write_vectors(*arguments, **settings)

    monkeypatch.setattr("spacy_pel.batch.embed.write_vectors", write)
    with pytest.raises(PelError, match="was changed meanwhile; run kb embed again"):
        embed_kb(bare_kb.path, linker)


def test_what_is_refused_before_anything_is_encoded(linker, bare_kb, encoded, tmp_path) -> None:
    old = embed_kb(shutil.copytree(bare_kb.path, tmp_path / "old"), linker)
    encoded.clear()
    for setting in ({"dtype": "int4"}, {"index": "fast"}, {"engine": "slurm"}, {"dim": 33}):
        with pytest.raises(PelError, match="choose"):
            embed_kb(bare_kb.path, linker, **setting)
    with pytest.raises(PelError, match="has no weights; train it"):
        embed_kb(bare_kb.path, spacy.blank("en").add_pipe("proxy_linker"))
    with pytest.raises(PelError, match="has no vectors to reuse"):
        embed_kb(bare_kb.path, linker, reuse=bare_kb.path)
    linker.cfg["index_unit"] = "entity"
    with pytest.raises(PelError, match="those of another encoder or index unit"):
        embed_kb(bare_kb.path, linker, reuse=old.path)
    assert encoded == []


def test_an_older_kb_gives_the_rows_of_what_did_not_change(
    linker, bare_kb: KnowledgeBase, tmp_path: Path, encoded: list[str], caplog
) -> None:
    """The older one has changed since it was embedded: C08 was added, C02 removed, C03 updated."""
    old, encoder = embed_kb(bare_kb.path, linker).path, KBEncoder(linker)
    added, updated = Entity("C08", "cough"), ENTITIES[2]._replace(aliases=("RA", "arthritis"))
    change_entities(old, "add", [added], encoder)
    remove_entities(old, ["C02"])
    change_entities(old, "update", [updated], encoder)
    changed = ENTITIES[5]._replace(aliases=("cephalgia", "sore head"))
    kidney = ENTITIES[6]._replace(sources=("another",))
    new = [Entity("C00", "fever"), *ENTITIES[:2], updated, changed, kidney, added]
    build_kb(new, tmp_path / "new")
    encoded.clear()
    kb = embed_kb(tmp_path / "new", linker, reuse=old)
    assert encoded == ["fever", *ENTITIES[1].names, *changed.names]
    assert caplog.messages == ["reused the vectors of 4 of 7 entities"]
    assert_rows_of(kb, new, linker)
