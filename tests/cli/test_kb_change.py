"""kb change add, update, remove and merge; kb diff, verify and export."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.settings import KB_FILE
from spacy_pel.kb.transaction import writing

from ..conftest import ENTITIES

NEW = [Entity("C08", "gout", ("podagra",), ("Disease",)), Entity("C09", "rest")]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def jsonl(tmp_path: Path):
    """Writes entities to a file."""

    def write(*entities: Entity) -> Path:
        path = tmp_path / "source.jsonl"
        path.write_text("\n".join(json.dumps(entity._asdict()) for entity in entities), "utf8")
        return path

    return write


def test_without_vectors(run, bare_kb: KnowledgeBase, jsonl) -> None:
    folder = bare_kb.path
    assert "2 added; 9 entities now" in run("kb", "change", "add", folder, jsonl(*NEW))
    kidney = ENTITIES[6]._replace(aliases=("ren",))
    output = run("kb", "change", "update", folder, jsonl(*ENTITIES[:6], kidney))
    assert "1 updated; 9 entities now" in output
    output = run(
        "kb", "change", "merge", folder, jsonl(Entity("C07", "Niere"), Entity("C10", "ear"))
    )
    assert "1 added, 1 updated; 10 entities now" in output
    output = run("kb", "change", "remove", folder, "C01", "C02")
    assert "2 removed; 8 entities now" in output
    assert "Verified" in run("kb", "verify", folder)
    kb = KnowledgeBase.open(folder)
    assert [e.concept_id for e in kb.by_id()] == [f"C{number:02}" for number in range(3, 11)]
    assert kb["C07"] == kidney._replace(aliases=("ren", "Niere"))
    assert "nothing changed; 8 entities now" in run(
        "kb", "change", "update", folder, jsonl(kb["C07"])
    )


def test_with_vectors(run, bare_kb: KnowledgeBase, tiny_folder: Path, jsonl) -> None:
    folder = bare_kb.path
    run("kb", "embed", folder, tiny_folder)
    before = contents(folder)
    output = run("kb", "change", "add", folder, jsonl(*NEW), code=1)
    assert (
        "has vectors, so new entities need vectors too" in output
        and "--pipeline PIPELINE" in output
    )
    assert contents(folder) == before
    run("kb", "change", "add", folder, jsonl(*NEW), "--pipeline", tiny_folder)
    run("kb", "change", "remove", folder, "C01")
    made = build_kb([*ENTITIES[1:], *NEW], folder.parent / "made").path
    run("kb", "embed", made, tiny_folder)
    changed, expected = KnowledgeBase.open(folder), KnowledgeBase.open(made)
    assert list(changed.by_id()) == list(expected)
    assert changed.settings["vectors"]["rows"] == expected.settings["vectors"]["rows"]
    queries = np.random.default_rng(0).normal(size=(5, changed.dim)).astype(np.float32)
    found, wanted = (kb.search(queries, len(kb)) for kb in (changed, expected))
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-4)


def test_remove_by_a_file(run, bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text("C01\n\n C02 \n")
    assert "3 removed" in run("kb", "change", "remove", bare_kb.path, "C03", "--file", ids)
    assert "no ids to remove" in run("kb", "change", "remove", bare_kb.path, code=1)
    assert "'C99' is not in" in run("kb", "change", "remove", bare_kb.path, "C99", code=1)


def test_merge_by_a_mapping(run, bare_kb: KnowledgeBase, jsonl, tmp_path: Path) -> None:
    table = tmp_path / "ids.sssom.tsv"
    rows = ["subject_id\tpredicate_id\tobject_id", "X:5\tskos:exactMatch\tUMLS:C0000005"]
    table.write_text("\n".join(rows))
    run("kb", "change", "add", bare_kb.path, jsonl(Entity("C0000005", "gout")))
    run("kb", "change", "merge", bare_kb.path, jsonl(Entity("X:5", "podagra")), "--mapping", table)
    kb = KnowledgeBase.open(bare_kb.path)
    assert kb["X:5"] == Entity("C0000005", "gout", ("podagra",), alt_ids=("X:5",))
    assert [Path(source).name for source in kb.settings["sources"]] == ["source.jsonl", table.name]


def test_a_bad_source_changes_nothing(run, bare_kb: KnowledgeBase, jsonl) -> None:
    before = contents(bare_kb.path)
    source = jsonl(*NEW)
    source.write_text(source.read_text() + '\n{"concept_id": "C99"}')
    assert "line 3: 'canonical_name' is missing" in run(
        "kb", "change", "add", bare_kb.path, source, code=1
    )
    assert "no knowledge base here" in run(
        "kb", "change", "add", bare_kb.path / "x", jsonl(*NEW), code=1
    )
    assert contents(bare_kb.path) == before


def test_a_second_writer(run, bare_kb: KnowledgeBase, jsonl) -> None:
    with writing(bare_kb.path):
        output = run("kb", "change", "add", bare_kb.path, jsonl(*NEW), code=1)
    assert "is writing to it; wait until that has ended, or stop it, and run it again" in output


def test_diff(run, bare_kb: KnowledgeBase, tiny_kb: Path, jsonl, tmp_path: Path) -> None:
    new = build_kb(ENTITIES, tmp_path / "new").path
    assert "hold the same entities" in run("kb", "diff", bare_kb.path, new)
    run("kb", "change", "add", new, jsonl(*NEW))
    run("kb", "change", "remove", new, "C01")
    run(
        "kb",
        "change",
        "update",
        new,
        jsonl(ENTITIES[6]._replace(aliases=("ren",), definition="A text.")),
    )
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


def test_export(run, bare_kb: KnowledgeBase, tiny_folder: Path, tmp_path: Path) -> None:
    run("kb", "embed", bare_kb.path, tiny_folder)
    output = run("kb", "export", bare_kb.path, tmp_path / "tables")
    assert "7 entities, 4 types, 17 rows" in output
    read = duckdb.connect().execute
    query = f"SELECT concept_id, aliases, definition FROM '{tmp_path}/tables/entities.parquet'"
    assert read(query).fetchall() == [(e[0], list(e[2]), e[4]) for e in ENTITIES]
    rows = read(f"SELECT concept_id, vector FROM '{tmp_path}/tables/rows.parquet'").fetchall()
    with KnowledgeBase.open(bare_kb.path) as kb:
        vectors, _ = kb.rows(kb.numbers())
    np.testing.assert_allclose([vector for _, vector in rows], vectors, rtol=1e-6)
    assert "exists" in run("kb", "export", bare_kb.path, tmp_path / "tables", code=1)
