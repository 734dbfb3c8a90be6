"""Every damage to a KB folder is found, also in a copy, and a KB in use is not called damaged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.change import add_entities, remove_entities
from spacy_pel.kb.describe import copy_kb
from spacy_pel.kb.knowledge_base import COPY_OR_BUILD, verify
from spacy_pel.kb.store import KB_FILE
from spacy_pel.kb.transaction import CHECKSUMS, write_checksums

from .living import ENTITIES, NameRows, edit_settings, execute, living_kb


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A changed KB, with removed entities and scales, and what killed writers left."""
    folder = living_kb(tmp_path / "kb", ENTITIES, dtype="int8", index="approximate")
    add_entities(folder, [Entity("C4", "Gout", ("Podagra",))], NameRows())
    remove_entities(folder, ["C10"])
    (folder / ".tmp-1.sqlite").write_text("half")
    (folder / ".lock").write_text("process 1")
    (folder / ".partial-0123").mkdir()
    return folder


def test_a_whole_kb(folder: Path) -> None:
    read = []
    assert verify(folder, progress=read.append) == []
    files = [*folder.glob("vectors-*"), *folder.glob("index-*")]
    assert sum(read) == sum(path.stat().st_size for path in files) and len(files) == 2


def test_any_flipped_byte_is_found(folder: Path, tmp_path: Path) -> None:
    """Of a KB that was assembled."""
    with KnowledgeBase.open(folder) as kb:
        copy_kb(kb, tmp_path / "copy")
    copy = tmp_path / "copy"
    chance = random.Random(0)
    for path in sorted(set(copy.iterdir()) - {copy / CHECKSUMS}):
        content = path.read_bytes()
        for place in chance.sample(range(len(content)), 12):
            flipped = content[place] ^ 1 << chance.randrange(8)
            path.write_bytes(content[:place] + bytes([flipped]) + content[place + 1 :])
            problems = verify(copy)
            assert any(problem.problem.startswith(str(path)) for problem in problems), place
        path.write_bytes(content)
    assert verify(copy) == []


def test_a_flipped_letter_of_a_changed_kb_is_found(folder: Path) -> None:
    path = folder / KB_FILE
    content = path.read_bytes()
    for word in (b"Mitral", b"A disease", b"OMIM:1", b"Podagra", b"catenin"):
        at = content.index(word)
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert verify(folder), word


def test_missing_short_and_foreign_files(folder: Path) -> None:
    vectors = next(folder.glob("vectors-*"))
    (folder / "notes.txt").write_text("mine")
    [problem] = verify(folder)
    assert problem.problem == f"{folder / 'notes.txt'}: does not belong to the KB"
    (folder / "notes.txt").unlink()
    size = vectors.stat().st_size
    vectors.write_bytes(vectors.read_bytes()[:-1])
    [problem] = verify(folder)
    assert problem.problem == f"{vectors}: {size - 1} bytes, not {size}"
    vectors.unlink()
    [problem] = verify(folder)
    assert problem.problem == f"{vectors}: missing"


def test_a_change_after_the_checksums_is_no_damage(folder: Path) -> None:
    write_checksums(folder)
    remove_entities(folder, ["C1"])
    assert verify(folder) == []
    write_checksums(folder)
    assert verify(folder) == []
    (folder / KB_FILE).write_bytes((folder / KB_FILE).read_bytes() + bytes(4096))
    [problem] = verify(folder)
    assert str(folder / KB_FILE) in problem.problem and problem.remedy == COPY_OR_BUILD


@pytest.mark.parametrize(
    "edit, fault",
    [
        (lambda s: s["counts"].update(entities=9), "counts 9 entities where there are 4"),
        (lambda s: s["vectors"].update(rows=3), "counts 3 vectors where there are 8"),
        (lambda s: s["vectors"].update(stored_dim=9), "the axes or the scales"),
        (lambda s: s.update(next_number=4), "counts 4 entities where there are 3"),
        ("DELETE FROM name WHERE number = 1", "table of names"),
        ("INSERT INTO removed VALUES (2, 1)", "counts 4 entities"),
        ("DELETE FROM row", "counts 8 vectors"),
        ("UPDATE entity SET concept_id = 'C4' WHERE number = 0", "checksum"),
        ("UPDATE vectors SET owners = x'00000000'", "does not hold 1 vectors"),
        ("UPDATE vectors SET scales = NULL", "the scales"),
        ("DELETE FROM vectors", "replaced meanwhile"),
    ],
)
def test_what_contradicts_the_tables(folder: Path, edit, fault: str) -> None:
    execute(folder, edit) if isinstance(edit, str) else edit_settings(folder, edit)
    assert fault in "".join(map(str, verify(folder)))
