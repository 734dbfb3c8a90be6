"""link, discover and mentions: what is read, and what is written."""

from __future__ import annotations

import csv
import gzip
import json
import shlex
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from typer.testing import CliRunner

from spacy_pel.cli import pel
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.pipeline.proxy_linker import ProxyLinker

from ..conftest import ENTITIES
from ..corpora.layouts import write_medmentions, write_zeshel
from ..fitting.calibration_corpus import write_repeated_corpus
from .link_examples import GIVEN, TEXT, breaking_after, records


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


def test_streams_blocks_and_formats_by_name(run, tiny_folder: Path, text: Path, out: Path) -> None:
    run("link", tiny_folder, text, "-o", out)
    again, folder = out.with_name("2.jsonl"), out.with_name("linked")
    run("link", tiny_folder, "-", "-o", again, stdin=text.read_bytes())
    assert again.read_bytes() == out.read_bytes()
    for _ in range(2):  # also where all is there already
        said = run("link", tiny_folder, text, "-o", f"{folder}/", "--to", "jsonl")
        assert f"Linked 4 mentions of 3 documents: {folder}/" in said
    (block,) = folder.glob("*.jsonl")
    assert block.name == "docs.txt-00000001.jsonl"
    assert block.read_bytes() == out.read_bytes()
    result = CliRunner().invoke(pel, ["link", str(tiny_folder), str(text)])
    assert result.stdout == out.read_text("utf8")
    assert "Linked 4 mentions of 3 documents: stdout" in result.stderr
    result = CliRunner().invoke(pel, ["link", str(tiny_folder), str(text), "--to", "bioc"])
    assert result.stdout.startswith("<?xml") and result.stdout.endswith("</collection>\n")
    link = text.parent / "link.jsonl"  # what a link points to is written
    link.symlink_to(out.parent / "target.jsonl")
    run("link", tiny_folder, text, "-o", link)
    assert link.is_symlink() and link.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    "options, problem",
    [
        (["-o", "x.jsonl", "--engine", "ray"], "with a slash, as in: --output x.jsonl/"),
        (["-o", "x.jsonl", "--address", "auto"], "are for a Ray cluster; add --engine ray"),
        (["-o", "x/"], "the format to write is not known; end the name in one of"),
        (["-o", "linked.pdf"], "linked.pdf: the format to write is not known; end the name in one"),
        (["--to", "parquet"], "parquet cannot be written to stdout; name a file"),
    ],
)
def test_what_an_output_needs(run, tiny_folder: Path, text: Path, options, problem: str) -> None:
    assert problem in run("link", tiny_folder, text, *options, code=1)


def test_given_mentions_are_the_only_ones(run, tiny_folder: Path, tmp_path: Path, out) -> None:
    given = f'{json.dumps(GIVEN)}\n{{"text": "MS and aspirin"}}\n'.encode()
    run("link", tiny_folder, "-", "--from", "jsonl", "-o", out, stdin=given)
    first, second = records(out)
    assert first["id"] == "d"
    assert [(m["start"], m["end"], m["text"], m["label"]) for m in first["mentions"]] == [
        (3, 5, "MS", "MENTION")
    ]
    assert "id" not in second
    assert [m["text"] for m in second["mentions"]] == ["MS", "aspirin"]
    doc = spacy.blank("en")("MS and aspirin")
    doc.spans["mine"] = [doc[0:1], doc[0:3]]
    DocBin(docs=[doc]).to_disk(tmp_path / "docs.spacy")
    run("link", tiny_folder, tmp_path / "docs.spacy", "-o", out, "--spans-key", "mine")
    (record,) = records(out)
    assert [m["text"] for m in record["mentions"]] == ["MS", "MS and aspirin"]
    assert all(len(m["candidates"]) == 5 for m in record["mentions"])


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
    types = {entity.concept_id: "|".join(entity.types) for entity in ENTITIES}
    assert [row["types"] for row in rows] == [types[row["id"]] for row in rows]
    output = run(*command, "SNOMED", code=1)
    assert "no entity has a code of 'SNOMED'; choose of its vocabularies: ICD10CM" in output


def test_what_is_read_is_not_written_to(run, tiny_folder: Path, text: Path, out: Path) -> None:
    run("link", tiny_folder, text.parent, "-o", out)
    assert [record["id"] for record in records(out)] == ["docs"]
    output = run("link", tiny_folder, text.parent, "-o", text.parent / "o.jsonl", code=1)
    assert "is what is read, or in its folder; write it somewhere else" in output
    before = text.read_bytes()
    output = run("link", tiny_folder, text, "-o", text, "--to", "jsonl", code=1)
    assert "is what is read" in output
    assert text.read_bytes() == before
    output = run("link", tiny_folder, "no.txt", "-o", text.parent / "out.jsonl", code=1)
    assert "no.txt: no such file; give" in output
    (text.parent.parent / "o.csv").mkdir()
    output = run("link", tiny_folder, text, "-o", text.parent.parent / "o.csv", code=1)
    assert "is a folder or a device; give the path of a file" in output
    assert [path.name for path in text.parent.iterdir()] == [text.name]


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_a_closed_stream_is_named(tiny_folder: Path, text: Path, stream: str) -> None:
    given = "-" if stream == "stdin" else str(text)
    command = [sys.executable, "-c", "from spacy_pel.cli import pel; pel()", "link"]
    closed = "<&-" if stream == "stdin" else ">&-"
    shell = f"{shlex.join([*command, str(tiny_folder), given])} {closed}"
    ended = subprocess.run(shell, shell=True, capture_output=True, text=True)
    assert ended.returncode == 1
    assert f"Error: {stream} is closed" in ended.stderr


def test_without_any_mention_or_vector(
    run, tiny_nlp: Language, bare_kb: KnowledgeBase, tmp_path: Path, out: Path
) -> None:
    tiny_nlp.remove_pipe("entity_ruler")
    tiny_nlp.to_disk(tmp_path / "pipeline")
    link = ("link", tmp_path / "pipeline", "-", "-o", out)
    output = run(*link, stdin=b"MS\nRA\n")
    assert output.count("No mention found by the pipeline (proxy_linker)") == 1
    assert "add a component that finds some before the linker" in output
    assert [record["mentions"] for record in records(out)] == [[], []]
    output = run(*link, "--kb", bare_kb.path, code=1, stdin=b"MS\n")
    assert "has no vectors; run: python -m spacy pel kb embed" in output


def failing_at(beginning: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the linker fail at documents that begin so."""

    def broken(linker: ProxyLinker, docs: list[Doc], predict=ProxyLinker.predict):
        if any(doc.text.startswith(beginning) for doc in docs):
            raise RuntimeError("odd\nsize")
        return predict(linker, docs)

    monkeypatch.setattr(ProxyLinker, "predict", broken)


def test_bad_documents_are_skipped_or_stop_the_run(
    run, tiny_folder: Path, tmp_path: Path, out: Path, monkeypatch
) -> None:
    docs = tmp_path / "docs.jsonl"
    docs.write_text(f"{json.dumps(GIVEN)}\nnonsense\n{json.dumps({'text': TEXT})}\n{{}}\n")
    output = run("link", tiny_folder, docs, "-o", out, code=1)
    assert "docs.jsonl, line 2: bad JSON" in output and list(out.parent.iterdir()) == []
    output = run("link", tiny_folder, "-", stdin=b"a\n\xff\n", code=1)
    assert "stdin, line 2: not UTF-8" in output
    monkeypatch.setattr("spacy_pel.jobs.link.DOCUMENTS_PER_BLOCK", 3)
    output = run("link", tiny_folder, docs, "-o", out, "--on-error", "skip")
    assert "Skipped document 2: " in output and "docs.jsonl, line 2: bad JSON" in output
    assert "Skipped document 4: " in output and "line 4: 'text' is missing" in output
    assert "Linked 3 mentions of 2 documents, 2 skipped" in output
    assert [record["text"] for record in records(out)] == [GIVEN["text"], TEXT]
    output = run("link", tiny_folder, docs, "-o", out, code=1)
    assert "document 2: " in output and "or leave it out with --on-error skip" in output
    assert len(records(out)) == 2  # as it was


@pytest.mark.timeout(120)
@pytest.mark.parametrize("n_process", [1, 2])
def test_a_document_that_a_component_fails_at(
    run, tiny_folder: Path, twelve: Path, out: Path, monkeypatch, n_process: int
) -> None:
    failing_at("Case 3:", monkeypatch)
    arguments = ("link", tiny_folder, twelve, "-o", out, "--n-process", n_process)
    output = run(*arguments, "--on-error", "skip")
    assert "Skipped document 4: " in output
    assert "twelve.txt, line 4: a component fails at it: RuntimeError: odd size" in output
    assert [record["text"][5:7] for record in records(out)] == [
        *("0:", "1:", "2:", "4:", "5:", "6:", "7:", "8:", "9:", "10", "11")
    ]
    if n_process == 1:
        assert "document 4: " in run(*arguments, code=1)
        failing_at("Case 11:", monkeypatch)  # also, alone in its part
        monkeypatch.setattr("spacy_pel.jobs.link.DOCUMENTS_PER_BLOCK", 11)
        output = run(*arguments, "--on-error", "skip")
        assert "Skipped document 12: " in output and len(records(out)) == 10


def test_a_component_that_fails_at_every_document_is_a_bug(
    tiny_folder: Path, twelve: Path, out: Path, monkeypatch
) -> None:
    breaking_after(0, RuntimeError("broken"), monkeypatch)
    arguments = ["link", str(tiny_folder), str(twelve), "-o", str(out), "--on-error", "skip"]
    result = CliRunner().invoke(pel, arguments)
    assert isinstance(result.exception, RuntimeError)


def test_a_line_that_is_too_long_says_that_the_rest_is_not_read(
    run, tiny_folder: Path, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spacy_pel.documents.format.LONGEST", 60)
    path = tmp_path / "notes.jsonl"
    texts = ["MS.", "MS." + " " * 60, "MS again."]
    path.write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts))
    output = run("link", tiny_folder, path, "-o", out, "--on-error", "skip")
    assert "no end of a document in 60 bytes, and the rest of the file is not read" in output
    assert "of 1 documents, 1 skipped" in output


@pytest.mark.parametrize("write, split", [(write_zeshel, "test"), (write_medmentions, "train")])
def test_a_split_is_linked(run, tiny_folder: Path, tmp_path: Path, out: Path, write, split) -> None:
    folder = write(tmp_path / "corpus")
    name = f"{folder if write is write_zeshel else folder / 'st21pv'}:{split}"
    gold = list(open_corpus(name).documents())
    run("link", tiny_folder, name, "-o", out)
    written = records(out)
    assert [(record["id"], record["text"]) for record in written] == [(d.id, d.text) for d in gold]
    assert [[(m["start"], m["end"]) for m in record["mentions"]] for record in written] == [
        sorted((m.start, m.end) for m in document.mentions) for document in gold
    ]
    again = [mention.ids for d in open_corpus(out).documents() for mention in d.mentions]
    assert again == [
        () if m["id"] in ("", "NIL") else (m["id"],) for r in written for m in r["mentions"]
    ]
    folder_alone = name.removesuffix(f":{split}")
    assert "has several splits; write" in run("link", tiny_folder, folder_alone, "-o", out, code=1)


def test_joint_links_and_proposals(run, pipeline: Path, tiny_nlp: Language, tmp_path: Path) -> None:
    corpus = write_repeated_corpus(tiny_nlp, tmp_path)
    output = tmp_path / "joint.jsonl"
    run_joint = ("link", pipeline, corpus, "-o", output, "--jointly")
    assert "run: python -m spacy pel calibrate PIPELINE DEV --jointly" in run(*run_joint, code=1)
    said = run("calibrate", pipeline, corpus, "--jointly")
    assert "inked jointly" in said and "adjusted Rand index" in said
    assert "All 20 mentions are linked by themselves; joining them" in run(*run_joint)
    assert len(records(output)) == 4

    proposals = tmp_path / "proposals.jsonl"
    said = run("discover", pipeline, output, proposals, "--linked")
    proposed = records(proposals)
    assert "Read 20 mentions of 4 documents" in said and f"{len(proposed)} proposals: " in said
    nil = [m["id"] for record in records(output) for m in record["mentions"]].count("NIL")
    assert sum(record["mentions"] for record in proposed) <= nil
    assert proposals.with_suffix(".html").is_file()
    assert "end it in .jsonl" in run("discover", pipeline, output, tmp_path / "page.html", code=1)


def test_mentions_of_several_texts(run, tiny_kb: Path, tmp_path: Path) -> None:
    inputs = [str(tmp_path / name) for name in ("a.txt.gz", "b.pubtator")]
    with gzip.open(inputs[0], "wt") as file:
        file.write("Kidney and aspirin.\nMS\n")
    Path(inputs[1]).write_text(
        "1|t|Aspirin and headache\n1\t0\t7\tAspirin\tT\tC05\n1\t12\t20\theadache\tT\tC01\n"
    )
    out = tmp_path / "out.parquet"
    said = run("mentions", tiny_kb, *inputs, out)
    assert "4 mentions of 3 entities, of 4 found in 3 documents" in said
    assert "50.0% of the 2 that are annotated are right" in said
    rows = duckdb.sql(f"SELECT source, id, name, \"right\" FROM '{out}' ORDER BY ALL").fetchall()
    assert rows == [
        (inputs[0], "line 1", "Kidney", None),
        (inputs[0], "line 1", "aspirin", None),
        (inputs[1], "1", "Aspirin", True),
        (inputs[1], "1", "headache", False),
    ]
