import os
import random
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, build_kb
from spacy_pel.kb.change import change_entities
from spacy_pel.kb.describe import kb_info
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.store import JOURNAL

from ..conftest import contents, run_python
from .living import ENTITIES, names_of

NEW = [Entity("X1", "New"), Entity("X2", "Newer")]


def test_order_of_the_input_changes_no_byte(tmp_path: Path) -> None:
    entities = [Entity(f"C{i}", f"name {i}", ("b",), ("T",), sources=("S",)) for i in range(500)]
    first = build_kb(entities, tmp_path / "first")
    random.Random(0).shuffle(entities)
    second = build_kb(iter(entities), tmp_path / "second")
    assert contents(first.path) == contents(second.path)
    assert list(second) == sorted(entities)


def test_scopes_of_names_are_stored_and_counted(tmp_path: Path) -> None:
    scoped = Entity(
        *("CL:1", "cell", ("exact", "Zelle", "\"',[", "large", "like")),
        exact_names=("exact", "\"',["),
        broad_names=("large",),
        related_names=("like",),
    )
    kb = build_kb([*ENTITIES, scoped], tmp_path / "kb", left_out=[{"GO": 2}, {"GO": 3, "BFO": 6}])
    assert kb["CL:1"] == scoped and "broad_names" not in ENTITIES[0].scopes
    info = kb_info(kb.path)
    assert info["scopes"] == {"exact": 2, "narrow": 0, "broad": 1, "related": 1}
    assert info["prefixes"] == {"CL": 1}
    assert list(info["left_out"].items()) == [("BFO", 6), ("GO", 5)]
    change_entities(kb.path, "merge", [Entity("CL:1", "cell", narrow_names=("small", "large"))])
    assert kb_info(kb.path)["scopes"] == {"exact": 2, "narrow": 2, "broad": 0, "related": 1}
    change_entities(kb.path, "update", [scoped._replace(related_names=())])
    kb.refresh()
    assert kb_info(kb.path)["scopes"]["related"] == 0 and kb["CL:1"].scopes.get("like") is None
    assert not verify(kb.path)


def test_of_those_that_claim_an_id_the_first_is_meant(tmp_path: Path) -> None:
    entities = [
        Entity("C3", "three", alt_ids=("both", "own")),
        Entity("C2", "two", alt_ids=("C3", "both"), retired_ids=("old", "both", "older")),
        Entity("C1", "one", alt_ids=("C1", "C2"), retired_ids=("old",)),
    ]
    kb = build_kb(entities, tmp_path / "kb")
    ids = ("C1", "C2", "C3", "both", "own", "old", "older")
    assert [kb.number(id) for id in ids] == [0, 1, 2, 1, 2, 0, 1]


def test_bad_entities_leave_no_folder(tmp_path: Path) -> None:
    blank = [*ENTITIES, Entity("C9", " ")]
    for entities, fault in (([], "umls: no entities"), (blank, "blank canonical_name")):
        with pytest.raises(PelError, match=fault):
            build_kb(entities, tmp_path / "deep" / "kb", sources=["umls"])
    assert list(tmp_path.iterdir()) == []


def test_building_again_replaces_records_and_drops_vectors(folder: Path) -> None:
    (folder / "README").write_text("mine")
    (folder / JOURNAL).touch()  # of a writer that was killed before it wrote
    kb = build_kb(NEW, folder)
    assert list(kb) == NEW and not kb.has_vectors
    assert {path.name for path in folder.iterdir()} == {*names_of(kb), "README"}


def test_folders_that_hold_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(PelError, match="holds other files and no KB"):
        build_kb(ENTITIES, tmp_path)
    with pytest.raises(PelError, match=r"thesis\.tex: is a file"):
        build_kb(ENTITIES, tmp_path / "thesis.tex")
    assert list(contents(tmp_path)) == ["thesis.tex"]
    (tmp_path / "left" / ".partial-vectors").mkdir(parents=True)  # by an embedding
    assert list(build_kb(NEW, tmp_path / "left")) == NEW


LIMITED = """
import resource, sys
import numpy as np
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, build_kb, write_vectors
folder, first = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
vectors = np.ones((4000, 4), dtype=np.float32)
batches = [(vectors, np.arange(4000) // 1000)]
people = [Entity(f"C{i}", "name " * 20) for i in range(1000)]
for write in (
    lambda: build_kb(people, folder),
    lambda: write_vectors(folder, batches, dim=4, fingerprint="new", index_unit="name"),
    lambda: build_kb(people, first),
):
    try:
        write()
    except PelError as error:
        print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs limits on the size of a file")
def test_files_that_really_cannot_grow(folder: Path, tmp_path: Path) -> None:
    before = contents(folder)
    said = run_python(LIMITED, folder, tmp_path / "first")
    assert said.count("the KB there is unchanged") == 2 and "nothing is left" in said
    assert {**before, **contents(folder)} == before
    assert not (tmp_path / "first").exists()
