import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors
from spacy_pel.kb import knowledge_base as module
from spacy_pel.kb.change import remove_entities
from spacy_pel.kb.knowledge_base import verify

from .living import ENTITIES


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    return build_kb(ENTITIES, tmp_path / "kb", sources=["demo"])


def test_entities_near_a_name_share_its_rarest_words(tmp_path: Path, monkeypatch) -> None:
    names = ["lung cancer", "lung disease", "diabetic lung", "liver cancer", "kidney"]
    kb = build_kb([Entity(f"E{n}", name) for n, name in enumerate(names)], tmp_path / "near")
    asked = ["diabetes of the lungs", "cancers", "Tumour", ""]
    assert kb.fuzzy_candidates(asked, 2).tolist() == [[2, 0], [0, 3], [-1, -1], [-1, -1]]
    # "lung" has more owners: it counts where it is alone.
    monkeypatch.setattr(module, "_MAX_MATCHES", 2)
    assert kb.fuzzy_candidates(["lung kidney", "lung"], 3).tolist() == [[4, -1, -1], [0, 1, -1]]


def test_records_by_number_and_by_any_id(kb: KnowledgeBase) -> None:
    ordered = sorted(ENTITIES)
    assert list(kb) == ordered
    assert [kb.number(id) for id in ("C1", "C10", "C2", "C3")] == [0, 1, 2, 3]
    assert kb.entities([3, 0, 3]) == [ordered[3], ordered[0], ordered[3]]
    assert kb.entities(np.array([], dtype=np.int64)) == []
    assert kb.labels(np.array([2, 1])) == [("C2", "Mass spectrometry"), ("C10", "Été 日本 🧬")]
    assert kb.settings["sources"] == ["demo"]
    assert kb["OMIM:1"] == kb["D1"] == kb["C1"] and kb.number("D1") == 0
    assert all(id not in kb for id in ("C4", "c1", "D2", "", "\ud800", "C\x001"))
    with pytest.raises(KeyError, match="C4"):
        kb["C4"]
    for lookup in (kb.entities, kb.labels):
        with pytest.raises(IndexError, match="number -1"):
            lookup([0, -1])


def test_with_and_without_vectors(kb: KnowledgeBase) -> None:
    remedy = r"kb has no vectors; run: python -m spacy pel kb embed .*kb PIPELINE"
    vectors = np.eye(4, dtype=np.float32)
    for attempt in (lambda: kb.search(vectors, 1), lambda: kb.rows([0]), lambda: kb.dim):
        with pytest.raises(PelError, match=remedy):
            attempt()
    about = {"dim": 4, "fingerprint": "abc", "index_unit": "entity"}
    kb = write_vectors(kb.path, [(vectors, np.arange(4))], **about)
    assert (kb.dim, kb.index_unit) == (4, "entity")
    found = kb.search(np.array([[0, 0, 2, 1]]), 9)
    assert found.numbers.tolist() == [[2, 3, 0, 1, -1, -1, -1, -1, -1]]
    with pytest.raises(PelError, match=r"another encoder \(abc, not xyz\); run: .* kb embed"):
        kb.check_fingerprint("xyz")


def test_moved_pickled_closed(folder: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    relative = KnowledgeBase.open(folder.name)
    monkeypatch.chdir("/")
    assert relative["C2"] == ENTITIES[2]
    relative.close()
    moved, queries = tmp_path / "a folder, 100% moved?#", np.eye(8)
    shutil.move(folder, moved)
    with KnowledgeBase.open(str(moved)) as kb:
        before = kb.search(queries, 2).numbers.tolist()
        copy = pickle.loads(pickle.dumps(kb))
        assert copy["C2"] == kb["C2"]
    assert kb["C2"] == copy["C2"]  # opens again
    assert kb.search(queries, 2).numbers.tolist() == before


def test_files_swept_while_it_opens(folder: Path, monkeypatch) -> None:
    """A writer commits between the reading of the settings and the opening of the vectors."""
    original = module.Store.settings

    def overtaken(store: module.Store) -> dict:
        settings = original(store)
        monkeypatch.setattr(module.Store, "settings", original)
        build_kb([Entity("X1", "New")], store.path.parent).close()
        return settings

    monkeypatch.setattr(module.Store, "settings", overtaken)
    assert list(KnowledgeBase.open(folder)) == [Entity("X1", "New")]


WRITER = """
import sys
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.change import change_entities
folder, name = sys.argv[1:]
for n in range(3):
    while True:
        try:
            change_entities(folder, "add", [Entity(f"{name}{n}", f"{name} {n}")])
            break
        except PelError as error:
            assert "is writing to it" in str(error), error
"""


def test_writers_beside_readers_lose_nothing(kb: KnowledgeBase) -> None:
    command = [sys.executable, "-c", WRITER, str(kb.path)]
    writers = [subprocess.Popen([*command, name]) for name in ("X", "Y")]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        with KnowledgeBase.open(kb.path) as reader:
            count = len(reader)
            assert len(list(reader)) == len(reader.numbers()) == count >= seen
            seen = count
    assert [writer.returncode for writer in writers] == [0, 0]
    remove_entities(kb.path, ["X1"])
    assert kb.refresh() and len(kb) == 4 + 2 * 3 - 1
    assert verify(kb.path) == []
