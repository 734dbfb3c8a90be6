"""kb info, diff, verify and export: what a KB holds."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import duckdb
import numpy as np

from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors
from spacy_pel.kb.change import add_entities, remove_entities
from spacy_pel.kb.settings import KB_FILE
from spacy_pel.kb.store import FIELDS, record_crc

from ..conftest import ENTITIES


def test_info_of_a_kb_without_vectors(run, bare_kb: KnowledgeBase) -> None:
    info = json.loads(run("kb", "info", bare_kb.path, "--json"))
    assert (info["entities"], info["aliases"], info["definitions"]) == (7, 10, 2)
    assert (info["alt_ids"], info["removed"]) == (1, 0)
    assert info["types"] == ["Anatomy", "Chemical", "Disease", "Procedure"]
    assert info["bytes"] == sum(
        path.stat().st_size for path in bare_kb.path.iterdir() if path.suffix != ".json"
    )
    for name in ("rows", "row_kind", "dim", "stored_dim", "dtype", "index", "codes", "recall"):
        assert info[name] is None


def test_info_of_a_kb_with_vectors(run, tiny_kb: Path, tiny_folder: Path) -> None:
    info = json.loads(run("kb", "info", tiny_kb, "--json"))
    assert (info["rows"], info["row_kind"], info["dim"]) == (17, "name", 32)
    assert (info["dtype"], info["index"], info["recall"]) == ("float32", "exact", None)
    shown = run("kb", "info", tiny_kb)
    assert info["fingerprint"] in shown and "Anatomy, Chemical, Disease, Procedure" in shown


def test_info_of_an_approximate_index(run, tmp_path: Path) -> None:
    folder = tmp_path / "kb"
    entities = [Entity(f"C{i:03d}", f"name {i}", (), (f"type {i}",)) for i in range(500)]
    build_kb(entities, folder).close()
    vectors = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
    write_vectors(
        folder, [(vectors, np.arange(500))], dim=8, fingerprint="f", row_kind="entity",
        dtype="float16", index="approximate",
    )  # fmt: skip
    info = json.loads(run("kb", "info", folder, "--json"))
    assert info["dtype"] == "float16" and info["index"] not in ("exact", None)
    assert {"1", "64"} <= set(info["recall"])
    shown = run("kb", "info", folder)
    assert f"1: {info['recall']['1']}" in shown and "and 480 more" in shown


def test_info_of_a_kb_that_was_changed(run, tmp_path: Path) -> None:
    build_kb(ENTITIES[:5], tmp_path / "kb").close()
    add_entities(tmp_path / "kb", ENTITIES[5:])
    remove_entities(tmp_path / "kb", ["C01", "C06", "C07"])
    info = json.loads(run("kb", "info", tmp_path / "kb", "--json"))
    assert (info["entities"], info["removed"]) == (4, 3)


def test_info_of_a_damaged_kb(run, bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    copy = shutil.copytree(bare_kb.path, tmp_path / "copy")
    (copy / KB_FILE).write_bytes(b"x" * 4096)
    assert "kb.sqlite: cannot be read" in run("kb", "info", copy, code=1)


def test_find_by_words_and_by_id(run, bare_kb: KnowledgeBase) -> None:
    assert run("kb", "info", bare_kb.path, "SCLEROSIS") == "C01 multiple sclerosis Disease"
    assert run("kb", "info", bare_kb.path, "ms") == (
        "C01 multiple sclerosis Disease C02 mass spectrometry Procedure"
    )
    assert run("kb", "info", bare_kb.path, "ms", "--limit", 1) == "C01 multiple sclerosis Disease"
    assert run("kb", "info", bare_kb.path, "X3") == "C03 rheumatoid arthritis Disease"
    assert "no id 'yeti' and no entity whose names" in run("kb", "info", bare_kb.path, "yeti")


def test_names_do_not_control_the_terminal(run, bare_kb: KnowledgeBase) -> None:
    """No writer stores such names, but the KB may be a stranger's."""
    path = bare_kb.path / KB_FILE
    id = bare_kb.labels(bare_kb.numbers()[:1])[0][0]
    bare_kb.close()
    database = sqlite3.connect(path)
    evil = "\x1b]0;owned\x07\x9b2J MS"
    database.execute("UPDATE entity SET canonical_name = ?", (evil,))
    for number, *fields in database.execute(f"SELECT number, {FIELDS} FROM entity").fetchall():
        crc = record_crc(fields)
        database.execute("UPDATE entity SET crc = ? WHERE number = ?", (crc, number))
    database.execute("UPDATE typed SET type = ? || type", (evil,))
    database.commit()
    database.close()
    for arguments in (("info", bare_kb.path, id), ("info", bare_kb.path)):
        shown = run("kb", *arguments)
        assert "\ufffd]0;owned\ufffd\ufffd2J MS" in shown
        assert not set(shown) & {"\x1b", "\x07", "\x9b"}
    shown = run("kb", "info", bare_kb.path, "--json")
    assert "\x9b" not in shown and json.loads(shown)["types"]


def test_diff(run, bare_kb: KnowledgeBase, tiny_kb: Path, tmp_path: Path) -> None:
    kidney = ENTITIES[6]._replace(aliases=("ren",), definition="A text.")
    gout = [Entity("C08", "gout", ("podagra",), ("Disease",)), Entity("C09", "rest")]
    assert "hold the same entities" in run("kb", "diff", bare_kb.path, tiny_kb)
    new = build_kb([*ENTITIES[1:6], kidney, *gout], tmp_path / "new").path
    output = run("kb", "diff", tiny_kb, new, "--output", tmp_path / "changes.jsonl")
    assert "added 2 C08, C09 removed 1 C01 changed 1 C07 aliases 1 definition 1" in output
    assert f"kb embed {new} PIPELINE --reuse {tiny_kb}" in output
    lines = (tmp_path / "changes.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["C01", "C07", "C08", "C09"]
    assert json.loads(lines[1])["fields"] == ["aliases", "definition"]


def test_verify_names_each_fault(run, bare_kb: KnowledgeBase) -> None:
    records = bare_kb.path / KB_FILE
    content = bytearray(records.read_bytes())
    content[len(content) // 2] ^= 1
    records.write_bytes(content)
    (bare_kb.path / "notes.txt").write_text("mine")
    output = run("kb", "verify", bare_kb.path, code=1)
    assert "does not agree with its checksum; copy the folder again" in output
    assert "notes.txt: does not belong to the KB; move it elsewhere" in output
    assert output.count("Error:") == 2


def test_export(run, tiny_kb: Path, tiny_folder: Path, tmp_path: Path) -> None:
    output = run("kb", "export", tiny_kb, tmp_path / "tables")
    assert "7 entities, 4 types, 17 rows" in output
    read = duckdb.connect().execute
    query = f"SELECT concept_id, aliases, definition FROM '{tmp_path}/tables/entities.parquet'"
    assert read(query).fetchall() == [(e[0], list(e[2]), e[4]) for e in ENTITIES]
    rows = read(f"SELECT concept_id, vector FROM '{tmp_path}/tables/rows.parquet'").fetchall()
    with KnowledgeBase.open(tiny_kb) as kb:
        vectors, _ = kb.rows(kb.numbers())
    np.testing.assert_allclose([vector for _, vector in rows], vectors, rtol=1e-6)
    assert "exists" in run("kb", "export", tiny_kb, tmp_path / "tables", code=1)
