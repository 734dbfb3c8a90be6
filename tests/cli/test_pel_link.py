"""Linking streams of documents: what is read, and what is written."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import DocBin
from typer.testing import CliRunner

from spacy_pel.cli import pel
from spacy_pel.kb import KnowledgeBase, build_kb

from ..conftest import ENTITIES
from .link_examples import GIVEN, TEXT, records


def test_a_record_is_what_the_pipeline_says(
    run, tiny_folder: Path, tiny_nlp: Language, text: Path, out: Path
) -> None:
    output = run("link", tiny_folder, text, "--output", out, "--candidates", 3)
    assert "Linked 4 mentions of 3 documents" in output
    expected = []
    for line in (TEXT, "Nothing here.", "MS or RA?"):
        mentions = [
            {
                "start": ent.start_char,
                "end": ent.end_char,
                "text": ent.text,
                "label": "TERM",
                "id": ent._.kb_id,
                "name": ent._.kb_candidates[0]["name"],
                "types": list(tiny_nlp.get_pipe("proxy_linker").kb[ent._.kb_id].types),
                "score": pytest.approx(ent._.kb_score, abs=1e-5),
                "probability": None,
                "candidates": [
                    {**candidate, "score": pytest.approx(candidate["score"], abs=1e-5)}
                    for candidate in ent._.kb_candidates[:3]
                ],
            }
            for ent in tiny_nlp(line).ents
        ]
        expected.append({"text": line, "mentions": mentions})
    assert records(out) == expected
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_stdin(run, tiny_folder: Path, text: Path, out: Path) -> None:
    run("link", tiny_folder, text, "-o", out)
    run("link", tiny_folder, "-", "-o", out.with_name("2.jsonl"), stdin=text.read_bytes())
    assert out.with_name("2.jsonl").read_bytes() == out.read_bytes()
    output = run(
        "link", tiny_folder, "-", "-o", out.with_name("3.jsonl"), stdin=b"a\n\xff\n", code=1
    )
    assert "stdin, line 2: not UTF-8" in output


def test_a_folder_of_blocks(run, tiny_folder: Path, text: Path, out: Path) -> None:
    run("link", tiny_folder, text, "-o", out)
    folder = out.with_name("linked")
    for _ in range(2):  # also where all is there already
        said = run("link", tiny_folder, text, "-o", f"{folder}/", "--to", "jsonl")
        assert f"Linked 4 mentions of 3 documents: {folder}/" in said
    (block,) = folder.glob("*.jsonl")
    assert block.name == "docs.txt-00000001.jsonl"
    assert block.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    "options, problem",
    [
        (["-o", "x.jsonl", "--engine", "ray"], "with a slash, as in: --output x.jsonl/"),
        (["-o", "x.jsonl", "--address", "auto"], "are for a Ray cluster; add --engine ray"),
        (["-o", "x/"], "the format to write is not known; end the name in one of"),
    ],
)
def test_what_a_folder_and_a_cluster_need(
    run, tiny_folder: Path, text: Path, options: list[str], problem: str
) -> None:
    assert problem in run("link", tiny_folder, text, *options, code=1)


def test_given_mentions_are_the_only_ones(run, tiny_folder: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "docs.jsonl", tmp_path / "linked.jsonl"
    path.write_text(f'{json.dumps(GIVEN)}\n{{"text": "MS and aspirin"}}\n', encoding="utf8")
    run("link", tiny_folder, path, "-o", out)
    first, second = records(out)
    assert first["id"] == "d"
    assert [(m["start"], m["end"], m["text"], m["label"]) for m in first["mentions"]] == [
        (3, 5, "MS", "MENTION")
    ]
    assert "id" not in second
    assert [m["text"] for m in second["mentions"]] == ["MS", "aspirin"]


def test_docbin_and_spans_key(run, tiny_folder: Path, tmp_path: Path) -> None:
    doc = spacy.blank("en")("MS and aspirin")
    doc.spans["mine"] = [doc[0:1], doc[0:3]]
    DocBin(docs=[doc]).to_disk(tmp_path / "docs.spacy")
    out = tmp_path / "o.jsonl"
    run("link", tiny_folder, tmp_path / "docs.spacy", "-o", out, "--spans-key", "mine")
    (record,) = records(out)
    assert [m["text"] for m in record["mentions"]] == ["MS", "MS and aspirin"]
    assert all(len(m["candidates"]) == 5 for m in record["mentions"])


def test_stdout_and_formats_by_name(run, tiny_folder: Path, text: Path, out: Path) -> None:
    run("link", tiny_folder, text, "-o", out)
    result = CliRunner().invoke(pel, ["link", str(tiny_folder), str(text)])
    assert result.stdout == out.read_text("utf8")
    assert "Linked 4 mentions of 3 documents: stdout" in result.stderr
    result = CliRunner().invoke(pel, ["link", str(tiny_folder), str(text), "--to", "bioc"])
    assert result.stdout.startswith("<?xml") and result.stdout.endswith("</collection>\n")
    run("link", tiny_folder, "-", "--from", "jsonl", "-o", out, stdin=json.dumps(GIVEN).encode())
    assert records(out)[0]["id"] == "d"
    output = run("link", tiny_folder, text, "--to", "parquet", code=1)
    assert "parquet cannot be written to stdout; name a file" in output


def test_codes_of_other_vocabularies(run, tiny_folder: Path, tmp_path: Path) -> None:
    entities = [e._replace(xrefs=(f"ICD10CM:{e.concept_id[1:]}",)) for e in ENTITIES]
    coded = build_kb(entities, tmp_path / "kb").path
    run("kb", "embed", coded, tiny_folder)
    text, out = tmp_path / "in.txt", tmp_path / "out.csv"
    text.write_text("MS and kidney\n")
    command = ("link", tiny_folder, text, "--kb", coded, "-o", out, "--xref")
    run(*command, "ICD10CM")
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [f"C{row['ICD10CM']}" for row in rows] == [row["id"] for row in rows]
    assert [row["types"] for row in rows] == [
        "|".join(entity.types)
        for row in rows
        for entity in ENTITIES
        if entity.concept_id == row["id"]
    ]
    output = run(*command, "SNOMED", code=1)
    assert "no entity has a code of 'SNOMED'; choose of its vocabularies: ICD10CM" in output


def test_a_folder_is_linked_and_not_written_to(
    run, tiny_folder: Path, text: Path, out: Path
) -> None:
    run("link", tiny_folder, text.parent, "-o", out)
    assert [record["id"] for record in records(out)] == ["docs"]
    output = run("link", tiny_folder, text.parent, "-o", text.parent / "o.jsonl", code=1)
    assert "is what is read, or in its folder; write it somewhere else" in output
    before = text.read_bytes()
    output = run("link", tiny_folder, text, "-o", text, "--to", "jsonl", code=1)
    assert "is what is read" in output
    assert text.read_bytes() == before


def test_what_a_link_points_to_is_written(run, tiny_folder: Path, text: Path, out: Path) -> None:
    run("link", tiny_folder, text, "-o", out)
    link = text.parent / "link.jsonl"
    link.symlink_to(out.parent / "target.jsonl")
    run("link", tiny_folder, text, "-o", link)
    assert link.is_symlink()
    assert link.read_bytes() == out.read_bytes()


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_a_closed_stream_is_named(tiny_folder: Path, text: Path, stream: str) -> None:
    given = "-" if stream == "stdin" else str(text)
    command = [sys.executable, "-m", "spacy", "pel", "link", str(tiny_folder), given]
    closed = "<&-" if stream == "stdin" else ">&-"
    shell = f"{shlex.join(command)} {closed}"
    ended = subprocess.run(shell, shell=True, capture_output=True, text=True)
    assert ended.returncode == 1
    assert f"Error: {stream} is closed" in ended.stderr


def test_without_any_mention_there_is_one_warning(
    run, tiny_nlp: Language, tmp_path: Path, out: Path
) -> None:
    tiny_nlp.remove_pipe("entity_ruler")
    tiny_nlp.to_disk(tmp_path / "pipeline")
    output = run("link", tmp_path / "pipeline", "-", "-o", out, stdin=b"MS\nRA\n")
    assert output.count("No mention found by the pipeline (proxy_linker)") == 1
    assert "add a component that finds some before the linker" in output
    assert [record["mentions"] for record in records(out)] == [[], []]


def test_a_kb_without_vectors_is_refused(
    run, tiny_folder: Path, bare_kb: KnowledgeBase, text: Path, out: Path
) -> None:
    output = run("link", tiny_folder, text, "-o", out, "--kb", bare_kb.path, code=1)
    assert "has no vectors; run: python -m spacy pel kb embed" in output


def test_missing_input_and_unwritable_output(run, tiny_folder: Path, text: Path) -> None:
    output = run("link", tiny_folder, "no.txt", "-o", text.parent / "out.jsonl", code=1)
    assert "no.txt: no such file; give" in output
    (text.parent.parent / "o.csv").mkdir()
    output = run("link", tiny_folder, text, "-o", text.parent.parent / "o.csv", code=1)
    assert "is a folder or a device; give the path of a file" in output
    output = run("link", tiny_folder, text, "-o", "linked.pdf", code=1)
    assert "linked.pdf: the format to write is not known; end the name in one of .jsonl, " in output
    assert [path.name for path in text.parent.iterdir()] == [text.name]
