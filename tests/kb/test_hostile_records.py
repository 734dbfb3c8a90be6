"""A database that a stranger made runs nothing, hangs nothing, and deletes nothing."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.change import remove_entities
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.store import JOURNAL, KB_FILE

from .living import edit_settings

USES = KnowledgeBase.open, lambda path: remove_entities(path, ["C1"])
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
HOSTILE = {
    "view": "ALTER TABLE entity RENAME TO other;"
    f"CREATE VIEW entity AS {ENDLESS} SELECT i AS number, * FROM other, n;",
    "view of fts5's name": f"CREATE VIEW word_more AS {ENDLESS} SELECT * FROM n;",
    "trigger": "CREATE TRIGGER t AFTER INSERT ON entity BEGIN DELETE FROM name; END;",
    "table": "CREATE TABLE more (i);",
    "column": "ALTER TABLE entity ADD COLUMN length GENERATED ALWAYS AS (length(concept_id));",
    "missing": "DROP TABLE typed;",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_another_schema_is_refused(folder: Path, kind: str) -> None:
    database = sqlite3.connect(folder / KB_FILE)
    database.executescript(HOSTILE[kind])
    database.close()
    for use in USES:
        with pytest.raises(PelError, match="its tables are not those of a KB"):
            use(folder)
    assert verify(folder)


def test_a_journal_that_names_other_files_is_not_played(folder: Path, tmp_path: Path) -> None:
    """SQLite would delete the file that it names, as if it were the journal of several databases."""
    victim = tmp_path / "thesis.tex"
    victim.write_text("years of work")
    name = str(victim).encode()
    magic, page = bytes.fromhex("d9d505f920a163d7"), 4096
    header = magic + struct.pack(">I4sIII", 0, b"seed", 1, 512, page)
    end = struct.pack(">I", (1 << 30) // page + 1) + name + struct.pack(">II", len(name), sum(name))
    (folder / JOURNAL).write_bytes(header.ljust(512, b"\0") + end + magic)
    for use in USES:
        with pytest.raises(PelError, match="journal: is not of a KB"):
            use(folder)
    assert victim.read_text() == "years of work"


@pytest.mark.parametrize("name", [KB_FILE, JOURNAL, "vectors"])
def test_links_lead_nowhere(folder: Path, tmp_path: Path, name: str) -> None:
    path = next(folder.glob("vectors-*")) if name == "vectors" else folder / name
    if not path.exists():
        path.write_text("x")
    path.rename(tmp_path / "other")
    path.symlink_to(tmp_path / "other")
    for use in USES:
        with pytest.raises(PelError, match="is a symbolic link"):
            use(folder)


def file(name: str) -> dict:
    return {"name": name, "sha256": "0" * 64, "bytes": 1}


@pytest.mark.parametrize(
    "edit",
    [
        lambda s: s.update(sources=[1]),
        lambda s: s.update(counts={"entities": "4"}),
        lambda s: s.update(change=-1),
        lambda s: s.update(next_number=10**12),
        lambda s: s.update(mentions=7),
        lambda s: s["vectors"].update(file=file("../secret")),
        lambda s: s["vectors"].update(file=file("/etc/passwd")),
        lambda s: s["vectors"].update(found_by={"kind": "PQ4", "file": file("kb.sqlite")}),
        lambda s: s["vectors"].update(found_by={"kind": "SQ8", "probes": 0, "file": file("x")}),
        lambda s: s["vectors"].pop("dim"),
    ],
)
def test_settings_that_no_writer_writes(folder: Path, edit) -> None:
    edit_settings(folder, edit)
    with pytest.raises(PelError, match="in no known way|is not the database"):
        KnowledgeBase.open(folder)


def test_settings_of_another_release(folder: Path) -> None:
    edit_settings(folder, lambda settings: settings.update(schema_version=99))
    with pytest.raises(PelError, match=r"schema version 99, this release reads 3; build it again"):
        KnowledgeBase.open(folder)
    edit_settings(folder, lambda settings: settings.update(kind="web app"))
    with pytest.raises(PelError, match="is not the database of a knowledge base"):
        KnowledgeBase.open(folder)
