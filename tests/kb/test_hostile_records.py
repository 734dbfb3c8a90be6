"""A file of records that a stranger made, with checksums that fit, runs nothing and hangs nothing."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.kb.folder.checksums import sha256
from spacy_pel.kb.folder.manifest import MANIFEST, manifest_text
from spacy_pel.kb.records.store import EntityStore
from spacy_pel.kb.verify import verify

from .examples import ENTITIES

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
HOSTILE = {
    "view": "ALTER TABLE entity RENAME TO other;"
    f"CREATE VIEW entity AS {ENDLESS} SELECT i AS number, * FROM other, n;",
    "view of fts5's name": f"CREATE VIEW word_more AS {ENDLESS} SELECT * FROM n;",
    "trigger": "CREATE TRIGGER t AFTER INSERT ON entity BEGIN DELETE FROM name; END;",
    "table": "CREATE TABLE more (i);",
    "index": "CREATE INDEX by_name ON entity (canonical_name);",
    "column": "ALTER TABLE entity ADD COLUMN length GENERATED ALWAYS AS (length(concept_id));",
    "missing": "DROP TABLE typed;",
}


def hostile_kb(folder: Path, sql: str) -> Path:
    """A KB whose records were changed, and whose manifest was made to fit."""
    build_kb(ENTITIES, folder).close()
    records = next(folder.glob("entities-*"))
    database = sqlite3.connect(records)
    database.executescript(sql)
    database.close()
    manifest = json.loads((folder / MANIFEST).read_text())
    content = {"bytes": records.stat().st_size, "sha256": sha256(records)}
    manifest["files"][records.name] = content
    (folder / MANIFEST).write_text(manifest_text(manifest))
    return folder


@pytest.mark.parametrize("kind", HOSTILE)
def test_another_schema_is_refused(tmp_path: Path, kind: str) -> None:
    folder = hostile_kb(tmp_path / "kb", HOSTILE[kind])
    fault = "its tables are not those of a KB"
    [problem] = verify(folder)
    assert fault in str(problem)
    with KnowledgeBase.open(folder) as kb, pytest.raises(PelError, match=fault):
        kb["C1"]


def test_connections_only_read(tmp_path: Path) -> None:
    with build_kb(ENTITIES, tmp_path / "kb") as kb:
        store = EntityStore(kb.segments[0].store.path)
        connection = store._connection
        for pragma, value in (("trusted_schema", 0), ("query_only", 1)):
            assert connection.execute(f"PRAGMA {pragma}").fetchone() == (value,)
        store.close()
