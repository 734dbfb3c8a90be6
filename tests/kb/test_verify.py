"""Every damage to a KB folder is found, and a KB in use is not called damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.folder.manifest import manifest_text
from spacy_pel.kb.folder.transaction import folder_transaction
from spacy_pel.kb.verify import verify
from spacy_pel.kb.writing.entity_changes import add_entities, remove_entities

from .examples import ENTITIES
from .living import NameRows, living_kb


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A KB of two segments, with removed entities and scales."""
    folder = living_kb(tmp_path / "kb", ENTITIES, dtype="int8", index="approximate")
    add_entities(folder, [Entity("C4", "Gout", ("Podagra",))], NameRows())
    remove_entities(folder, ["C10"])
    return folder


def test_a_whole_kb(folder: Path) -> None:
    read = []
    assert verify(folder, progress=read.append) == []
    files = json.loads((folder / "manifest.json").read_text())["files"]
    assert sum(read) == sum(file["bytes"] for file in files.values())
    assert {name.partition("-")[0] for name in files} == {
        "entities", "index", "removed", "rows", "scales", "vectors"
    }  # fmt: skip


def test_any_flipped_byte_is_found(folder: Path) -> None:
    chance = random.Random(0)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for place in chance.sample(range(len(content)), min(12, len(content))):
            flipped = content[place] ^ 1 << chance.randrange(8)
            path.write_bytes(content[:place] + bytes([flipped]) + content[place + 1 :])
            [problem] = verify(folder)
            named = problem.problem.startswith(str(path))
            assert named or path.name == "manifest.json", problem
        path.write_bytes(content)
    assert verify(folder) == []


def test_missing_short_and_foreign_files(folder: Path) -> None:
    rows = next(folder.glob("rows-*"))
    vectors = next(folder.glob("vectors-*"))
    rows.unlink()
    vectors.write_bytes(vectors.read_bytes()[:-1])
    (folder / "notes.txt").write_text("mine")
    size = vectors.stat().st_size
    copy = "copy the folder again, or build the KB again"
    assert {(problem.problem, problem.remedy) for problem in verify(folder)} == {
        (f"{folder / 'notes.txt'}: does not belong to the KB", "move it elsewhere"),
        (f"{rows}: missing", copy),
        (f"{vectors}: {size} bytes, not {size + 1}", copy),
    }


def test_what_a_killed_writer_leaves_is_no_damage(folder: Path) -> None:
    (folder / ".tmp-1.sqlite").write_text("half")
    (folder / "vectors-0123456789abcdef.npy").write_text("not committed")
    (folder / ".lock").write_text("process 1")
    (folder / ".partial-0123").mkdir()
    assert verify(folder) == []


def test_no_kb(tmp_path: Path) -> None:
    with pytest.raises(PelError, match="no knowledge base here; build one"):
        verify(tmp_path)


def edited(folder: Path, edit) -> list[str]:
    """What is wrong if a writer made a mistake, so that all checksums are right."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    edit(manifest)
    path.write_text(manifest_text(manifest))
    return [problem.problem for problem in verify(folder)]


@pytest.mark.parametrize(
    "edit, fault",
    [
        (lambda m: m["counts"].update(entities=9), "counts 9 entities where there are 4"),
        (lambda m: m["vectors"].update(rows=3), "counts 3 vectors where there are 8"),
        (lambda m: m["segments"][0].update(count=5), "counts 5 records in entities-"),
        (lambda m: m["segments"][0].update(removed=None), "files of its segments are not those"),
        (lambda m: m["segments"].pop(), "files of its segments are not those it lists"),
        (lambda m: m["vectors"].update(dtype="float32"), "do not hold 8 vectors as said"),
        (lambda m: m["vectors"].update(dim=9), "do not hold 8 vectors as said"),
        (lambda m: m.update(vectors=None), "not for both"),
        (
            lambda m: m["files"].update({"../secret": {}}),
            "names '../secret', which is not a file of",
        ),
    ],
)
def test_a_manifest_that_contradicts_the_files(folder: Path, edit, fault: str) -> None:
    problems = edited(folder, edit)
    assert any(fault in problem for problem in problems), problems
    assert all(str(folder / "manifest.json") in problem for problem in problems)


@pytest.mark.parametrize(
    "stem, array, fault",
    [
        ("removed", [2, 1], "does not hold ascending numbers below 4"),
        ("removed", [1, 1], "does not hold ascending numbers below 4"),
        ("removed", [4], "does not hold ascending numbers below 4"),
        ("rows", [0, 0, 1, 1, 2, 3, 3, 4], "names entities that entities-"),
        ("rows", [0, 0, 1], "do not hold 8 vectors as said"),
    ],
)
def test_files_that_contradict_the_manifest(folder: Path, stem: str, array, fault: str) -> None:
    with folder_transaction(folder) as changes:
        manifest = json.loads((folder / "manifest.json").read_text())
        segment = manifest["segments"][0]
        owners = {"removed": (segment, "removed"), "rows": (segment["vectors"], "rows_file")}
        owner, key = owners[stem]
        path = changes.temporary(".npy")
        np.save(path, np.array(array))
        del manifest["files"][owner[key]]
        owner[key] = changes.publish(path, stem)
        changes.commit({**manifest, "files": {**manifest["files"], **changes.files}})
    problems = verify(folder)
    assert any(fault in problem.problem for problem in problems), problems


def test_an_id_in_two_records(folder: Path) -> None:
    def twice(manifest) -> None:
        manifest["segments"].append(manifest["segments"][1])
        manifest["counts"]["entities"] += 1
        manifest["vectors"]["rows"] += 2

    assert [
        problem for problem in edited(folder, twice) if "two records have the id 'C4'" in problem
    ]
