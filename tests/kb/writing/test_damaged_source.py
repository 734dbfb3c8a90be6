"""What copies records or vectors checks them first: damage never gets a fresh checksum."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors
from spacy_pel.kb.folder.checksums import copy_checked
from spacy_pel.kb.readers import open_source
from spacy_pel.kb.verify import verify
from spacy_pel.kb.writing.compaction import compact
from spacy_pel.kb.writing.entity_changes import (
    add_entities,
    merge_entities,
    remove_entities,
    update_entities,
)
from spacy_pel.kb.writing.reduction import reduce_vectors

from ..examples import ENTITIES, contents
from ..living import NameRows, assert_holds, living_kb

PLACES = 8  # bytes flipped in each file, one after another
NEW = [Entity(f"N{i}", f"New {i}") for i in range(5)]
RECORDS = ("entities", "removed")
ROWS = ("vectors", "scales", "rows")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A KB of three segments, with removed entities, scales and indexes."""
    folder = tmp_path_factory.mktemp("damaged") / "kb"
    living_kb(folder, ENTITIES, dtype="int8", index="approximate")
    add_entities(folder, NEW[:2], NameRows())
    add_entities(folder, NEW[2:3], NameRows())
    remove_entities(folder, ["C10", "N0"])
    return folder


@pytest.fixture(scope="module")
def simple(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A KB of one segment whose vectors were reduced once."""
    folder = tmp_path_factory.mktemp("simple") / "kb"
    build_kb(ENTITIES, folder).close()
    rows = np.random.default_rng(0).normal(size=(40, 12)).astype(np.float32)
    settings = {"dim": 12, "fingerprint": "names", "row_kind": "name", "index": "approximate"}
    write_vectors(folder, [(rows, np.arange(40) // 10)], **settings).close()
    reduce_vectors(folder, dim=6)[0].close()
    return folder


def flipped_files(folder: Path, stems: tuple[str, ...]):
    """Damages each file of these kinds, a byte at a time; the folder is whole again after each."""
    paths = [path for stem in stems for path in folder.glob(f"{stem}-*")]
    assert {path.name.partition("-")[0] for path in paths} == set(stems)
    for path in paths:
        content = path.read_bytes()
        for place in np.linspace(0, len(content) - 1, PLACES).astype(int).tolist():
            path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
            yield path
        path.write_bytes(content)


def assert_refused(folder: Path, copy: Callable[[Path], object], stems: tuple[str, ...]) -> None:
    for path in flipped_files(folder, stems):
        before = contents(folder)
        with pytest.raises(PelError) as caught:
            copy(folder)
        assert str(caught.value).startswith(f"{path}: ")
        assert contents(folder) == before


def test_compact(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "kb")
    assert_refused(folder, compact, (*RECORDS, *ROWS))


def test_an_index_is_not_copied_but_built_again(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "kb")
    next(flipped_files(folder, ("index",)))
    compact(folder).close()
    assert verify(folder) == []
    kept = [entity for entity in (*ENTITIES, *NEW[:3]) if entity.concept_id not in ("C10", "N0")]
    with KnowledgeBase.open(folder) as kb:
        assert sorted(kb) == sorted(kept)


CHANGED = [NEW[0]._replace(definition="Changed.")]
CHANGES = {
    "add": (lambda folder: add_entities(folder, NEW[3:], NameRows()), NEW),
    "update": (
        lambda folder: update_entities(folder, CHANGED, NameRows()),
        [*CHANGED, *NEW[1:3]],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_folding(tmp_path: Path, change: str) -> None:
    """Each change folds the segments after the oldest into one."""
    apply, expected = CHANGES[change]
    whole = living_kb(tmp_path / "kb", ENTITIES)
    with KnowledgeBase.open(whole) as kb:
        oldest = set(kb.manifest["files"])
    add_entities(whole, NEW[:2], NameRows())
    add_entities(whole, NEW[2:3], NameRows())
    errors = 0
    for name in sorted(set(contents(whole)) - oldest - {"manifest.json"}):
        content = (whole / name).read_bytes()
        for place in np.linspace(0, len(content) - 1, PLACES).astype(int).tolist():
            folder = tmp_path / f"{name}{place}"
            shutil.copytree(whole, folder)
            flipped = content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
            (folder / name).write_bytes(flipped)
            before = contents(folder)
            try:
                apply(folder)
            except PelError as error:
                errors += 1
                assert name in str(error)
                assert contents(folder) == before
            else:  # the new segment has a file of the same name, which replaced the damaged one
                assert verify(folder) == []
                assert_holds(folder, [*ENTITIES, *expected])
    assert errors > 3 * PLACES
    apply(whole)
    assert_holds(whole, [*ENTITIES, *expected])
    with KnowledgeBase.open(whole) as kb:
        assert len(kb.segments) == 2


def test_merge_checks_the_records_it_joins(tmp_path: Path) -> None:
    folder = living_kb(tmp_path / "kb", ENTITIES)
    joining = [Entity("C1", "Mitral stenosis", ("Stenosis of mitral valve",))]
    other = tmp_path / "other"
    errors = 0
    for path in flipped_files(folder, ("entities",)):
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(folder, other)
        try:
            merge_entities(other, joining, NameRows())
        except PelError as error:
            errors += 1
            assert path.name in str(error)
        assert any(path.name in str(fault) for fault in verify(other))
    assert errors > PLACES / 2
    merge_entities(folder, joining, NameRows())
    both = ENTITIES[1]._replace(aliases=("MS", "Stenosis of mitral valve"))
    assert_holds(folder, [ENTITIES[0], both, *ENTITIES[2:]])


def test_remove_checks_what_was_removed_before(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "kb")
    for path in flipped_files(folder, ("removed",)):
        try:
            remove_entities(folder, ["C1", "N1"])
        except PelError as error:
            assert str(path) in str(error)
        else:
            pytest.fail("its damage was copied")


def test_reduce(simple: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(simple, tmp_path / "kb")
    kinds = ("entities", "vectors", "rows", "basis")
    assert_refused(folder, lambda path: reduce_vectors(path, alike=0.9), kinds)


def test_build_from_a_kb(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "kb")
    assert_refused(folder, lambda path: list(open_source(path).entities), RECORDS)


def test_a_checked_copy(tmp_path: Path) -> None:
    folder = living_kb(tmp_path / "kb", ENTITIES)
    with KnowledgeBase.open(folder) as kb:
        for number, (name, entry) in enumerate(kb.manifest["files"].items()):
            copy = tmp_path / str(number)
            copy_checked(folder / name, copy, entry)
            assert copy.read_bytes() == (folder / name).read_bytes()
            (folder / name).write_bytes((folder / name).read_bytes()[:-1] + b"?")
            with pytest.raises(PelError, match="does not agree with its checksum"):
                copy_checked(folder / name, tmp_path / f"bad{number}", entry)
