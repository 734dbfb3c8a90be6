import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import DocBin
from typer.testing import CliRunner

from spacy_pel.cli import pel
from spacy_pel.cli.documents import link_cli
from spacy_pel.errors import PelError
from spacy_pel.kb import build_kb

from ..calibration.corpora import write_repeated_corpus
from ..conftest import ENTITIES, pubtator, records, write_text
from .conftest import GIVEN, TEXT, breaking_after, failing_at


def test_streams_blocks_and_formats_by_name(run, tiny_folder: Path, text: Path, out: Path) -> None:
    run("link", tiny_folder, text, "-o", out)
    again, folder = out.with_name("2.jsonl"), out.with_name("linked")
    run("link", tiny_folder, "-", "-o", again, stdin=text.read_bytes())
    assert again.read_bytes() == out.read_bytes()
    said = run("link", tiny_folder, text, "-o", f"{folder}/", "--to", "jsonl")
    assert f"Linked 4 mentions in 3 documents: {folder}/" in said
    assert (folder / "docs.txt-00000001.jsonl").read_bytes() == out.read_bytes()
    result = CliRunner().invoke(pel, ["link", str(tiny_folder), str(text)])
    assert result.stdout == out.read_text("utf8")
    assert "Linked 4 mentions in 3 documents: stdout" in result.stderr
    link = text.parent / "link.jsonl"  # what a link points to is written
    link.symlink_to(out.parent / "target.jsonl")
    run("link", tiny_folder, text, "-o", link)
    assert link.is_symlink() and link.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    "options, problem",
    [
        (["-o", "x.jsonl", "--engine", "ray"], "with a slash, as in: --output x.jsonl/"),
        (["-o", "x.jsonl", "--address", "auto"], "is for a Ray cluster; add --engine ray"),
        (["-o", "../o.csv"], "is a folder or a device; give the path of a file"),
    ],
)
def test_what_an_output_needs(run, tiny_folder, text, monkeypatch, options, problem) -> None:
    monkeypatch.chdir(text.parent)
    Path("../o.csv").mkdir()
    assert problem in run("link", tiny_folder, text.parent, *options, code=1)
    assert list(text.parent.iterdir()) == [text]


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_a_closed_stream_is_named(tiny_folder: Path, text: Path, monkeypatch, stream: str) -> None:
    monkeypatch.setattr(sys, stream, None)
    with pytest.raises(PelError, match=f"{stream} is closed"):
        link_cli(str(tiny_folder), "-" if stream == "stdin" else str(text))


def test_given_mentions_are_the_only_ones(run, tiny_folder: Path, tmp_path: Path, out) -> None:
    run("link", tiny_folder, "-", "--from", "jsonl", "-o", out, stdin=json.dumps(GIVEN).encode())
    ([mention],) = (record["mentions"] for record in records(out))
    assert (mention["start"], mention["text"], mention["label"]) == (3, "MS", "MENTION")
    doc = spacy.blank("en")("MS and aspirin")
    doc.spans["mine"] = [doc[0:1], doc[0:3]]
    DocBin(docs=[doc]).to_disk(tmp_path / "docs.spacy")
    run("link", tiny_folder, tmp_path / "docs.spacy", "-o", out, "--spans-key", "mine")
    (record,) = records(out)
    assert [m["text"] for m in record["mentions"]] == ["MS", "MS and aspirin"]


def test_codes_of_other_vocabularies(run, tiny_folder: Path, tmp_path: Path) -> None:
    entities = [e._replace(xrefs=(f"ICD10CM:{e.concept_id[1:]}",)) for e in ENTITIES]
    coded = build_kb(entities, tmp_path / "kb").path
    run("kb", "embed", coded, tiny_folder)
    text, out = tmp_path / "in.txt", tmp_path / "out.csv"
    text.write_text("MS and kidney\n")
    command = ("link", tiny_folder, text, "--kb", coded, "-o", out, "--xref")
    run(*command, "ICD10CM")
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [f"C{row['ICD10CM']}" for row in rows] == [row["id"] for row in rows]
    output = run(*command, "SNOMED", code=1)
    assert "no entity has a code of 'SNOMED'; choose one of its vocabularies: ICD10CM" in output


def test_without_any_mention_or_vector(run, tiny_nlp, bare_kb, tmp_path, out) -> None:
    tiny_nlp.remove_pipe("entity_ruler")
    tiny_nlp.to_disk(tmp_path / "pipeline")
    link = ("link", tmp_path / "pipeline", "-", "-o", out)
    output = run(*link, stdin=b"MS\nRA\n")
    assert output.count("The pipeline (proxy_linker) found no mentions") == 1
    assert [record["mentions"] for record in records(out)] == [[], []]
    output = run(*link, "--kb", bare_kb.path, code=1, stdin=b"MS\n")
    assert "has no vectors; run: python -m spacy pel kb embed" in output


def test_bad_documents_are_skipped_or_stop_the_run(run, tiny_folder, tmp_path, out, monkeypatch):
    docs = tmp_path / "docs.jsonl"
    docs.write_text(f"{json.dumps(GIVEN)}\nnonsense\n{json.dumps({'text': TEXT})}\n{{}}\n")
    output = run("link", tiny_folder, docs, "-o", out, code=1)
    assert "docs.jsonl, line 2: bad JSON" in output and list(out.parent.iterdir()) == []
    monkeypatch.setattr("spacy_pel.batch.link_files.DOCUMENTS_PER_BLOCK", 3)
    output = run("link", tiny_folder, docs, "-o", out, "--on-error", "skip")
    assert "Skipped document 2: " in output and "docs.jsonl, line 2: bad JSON" in output
    assert "Skipped document 4: " in output and "line 4: 'text' is missing" in output
    assert "Linked 3 mentions in 2 documents, 2 skipped" in output
    assert [record["text"] for record in records(out)] == [GIVEN["text"], TEXT]
    output = run("link", tiny_folder, docs, "-o", out, code=1)
    assert "or leave it out with --on-error skip" in output
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
    assert "twelve.txt, line 4: a component failed on it: RuntimeError: odd size" in output
    texts = [record["text"][5:7] for record in records(out)]
    assert texts == ["0:", "1:", "2:", "4:", "5:", "6:", "7:", "8:", "9:", "10", "11"]
    if n_process == 1:
        assert "document 4: " in run(*arguments, code=1)
        failing_at("Case 11:", monkeypatch)  # also, alone in its part
        monkeypatch.setattr("spacy_pel.batch.link_files.DOCUMENTS_PER_BLOCK", 11)
        output = run(*arguments, "--on-error", "skip")
        assert "Skipped document 12: " in output and len(records(out)) == 10


def test_a_component_that_fails_at_every_document_is_a_bug(tiny_folder, twelve, out, monkeypatch):
    breaking_after(0, RuntimeError("broken"), monkeypatch)
    arguments = ["link", str(tiny_folder), str(twelve), "-o", str(out), "--on-error", "skip"]
    result = CliRunner().invoke(pel, arguments)
    assert isinstance(result.exception, RuntimeError)


def test_joint_links_and_proposals(run, pipeline: Path, tiny_nlp: Language, tmp_path: Path) -> None:
    corpus = write_repeated_corpus(tiny_nlp, tmp_path)
    output, proposals = tmp_path / "joint.jsonl", tmp_path / "proposals.jsonl"
    run_joint = ("link", pipeline, corpus, "-o", output, "--jointly")
    assert "run: python -m spacy pel calibrate PIPELINE DEV --jointly" in run(*run_joint, code=1)
    said = run("calibrate", pipeline, corpus, "--jointly")
    assert "inked jointly" in said and "adjusted Rand index" in said
    assert "linked 20 mentions one by one; joining them" in run(*run_joint)
    said = run("discover", pipeline, output, proposals, "--linked")
    assert "Read 20 mentions in 4 documents" in said
    assert f"{len(records(proposals))} proposals: " in said
    assert proposals.with_suffix(".html").is_file()


def test_mentions_of_several_texts(run, tiny_kb: Path, tmp_path: Path) -> None:
    gold = pubtator("Aspirin and headache", [("Aspirin", "C05"), ("headache", "C01")])
    inputs = [write_text(tmp_path / "a.txt.gz", "Kidney and aspirin.\nMS\n")]
    inputs.append(write_text(tmp_path / "b.pubtator", gold))
    said = run("mentions", tiny_kb, *inputs, tmp_path / "out.parquet")
    assert "4 mentions of 3 entities, a sample of 4 in 3 documents" in said


def test_it_goes_on_where_it_was_broken_off(run, tiny_folder, twelve, out, monkeypatch) -> None:
    whole = out.with_name("whole.jsonl")
    arguments = ("link", tiny_folder, twelve, "--batch-size", 1, "-o")
    run(*arguments, whole)
    with monkeypatch.context() as patch:
        breaking_after(5, KeyboardInterrupt(), patch)
        out.write_text("old")
        said = run(*arguments, out, code=130)
        assert "interrupted; the documents that were linked are kept next to the output; ru" in said
        assert out.read_text() == "old"
    linked = breaking_after(-1, KeyboardInterrupt(), monkeypatch)
    output = run(*arguments, out)
    assert "Resuming after 4 finished documents" in output
    assert "Linked 24 mentions in 12 documents" in output
    assert [text[5:7] for text in linked] == [*(f"{n}:" for n in range(4, 10)), "10", "11"]
    assert out.read_bytes() == whole.read_bytes()
    assert {path.name for path in out.parent.iterdir()} == {out.name, whole.name}


# Where many processes share a core, to start the program and the fixtures alone takes minutes.
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("n_process", [1, 2])
@pytest.mark.parametrize(
    "number, code, message",
    [(signal.SIGINT, 130, "the same command goes on from there"), (signal.SIGTERM, 143, "")],
)
def test_a_signal_ends_workers_and_leaves_no_output(
    tiny_folder: Path, out: Path, n_process: int, number: int, code: int, message: str
) -> None:
    arguments = ("-m", "spacy", "pel", "link", tiny_folder, "-", "-o", out)
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments), "--n-process", str(n_process), "--batch-size", "2"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        process.stdin.write(f"{TEXT}\n" * 1000)
        process.stdin.flush()  # and no end: it goes on waiting for more
        while not any(path.stat().st_size for path in out.parent.glob("*.parts/*.part")):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        os.killpg(process.pid, number)
        errors = process.stderr.read()
        assert process.wait(60) == code
    assert errors.splitlines()[-1].endswith(message)
    assert "Traceback" not in errors and not out.exists()
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_a_gpu_that_is_not_there(run, tiny_folder: Path) -> None:
    for command in (("link", tiny_folder, "-"), ("serve", tiny_folder, "--port", 0)):
        said = run(*command, "--gpu-id", 63, code=1)
        assert "GPU 63 cannot be used" in said and "leave out --gpu-id" in said
    assert '"text": "MS"' in run("link", tiny_folder, "-", "--gpu-id", -1, stdin=b"MS\n")
