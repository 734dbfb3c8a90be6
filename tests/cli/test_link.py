"""Linking streams of documents, and what a failure leaves behind."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from random import Random

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from typer.testing import CliRunner

from spacy_pel.cli import pel
from spacy_pel.cli.linking import link_documents
from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase
from spacy_pel.pipeline.proxy_linker import ProxyLinker

TEXT = "Aspirin relieves headache. The patient has MS."
GIVEN = {"text": "An MS-like illness", "id": "d", "mentions": [{"start": 3, "end": 5}]}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "docs.txt"
    path.parent.mkdir()
    path.write_text(f"{TEXT}\n\nNothing here.\nMS or RA?\n", encoding="utf8")
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out" / "linked.jsonl"


def records(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf8").splitlines()]


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


@pytest.mark.parametrize("n_process", [1, 2])
@pytest.mark.timeout(120)
def test_parts_change_nothing(
    run, tiny_folder: Path, tmp_path: Path, monkeypatch, n_process: int
) -> None:
    nlp = spacy.blank("en")
    docs = [nlp(f"Aspirin{n} relieves headache and w{n}") for n in range(7)]
    for doc in docs[:5]:
        doc.ents = [Span(doc, 0, 1, label=f"L{len(doc.text)}"), Span(doc, 4, 5, label="W")]
    DocBin(docs=docs).to_disk(tmp_path / "docs.spacy")
    arguments = ("link", tiny_folder, tmp_path / "docs.spacy", "--n-process", n_process)
    arguments += ("--batch-size", 2, "-o")  # divides the part: batches decide the last bits
    run(*arguments, tmp_path / "one.jsonl")
    monkeypatch.setattr("spacy_pel.cli.bulk.PART", 4)
    run(*arguments, tmp_path / "many.jsonl")
    assert len(records(tmp_path / "one.jsonl")) == 7
    assert records(tmp_path / "many.jsonl") == records(tmp_path / "one.jsonl")


@pytest.fixture
def twelve(tmp_path: Path, monkeypatch) -> Path:
    """Twelve documents, in parts of two, in batches of one."""
    monkeypatch.setattr("spacy_pel.cli.bulk.PART", 2)
    path = tmp_path / "twelve.txt"
    path.write_text("".join(f"Case {n}: {TEXT}\n" for n in range(12)))
    return path


def breaking_after(n: int, error: BaseException, monkeypatch) -> list[str]:
    """Makes the linker fail after so many documents; gives the texts that it links."""
    linked: list[str] = []

    def broken(linker: ProxyLinker, docs: list[Doc], predict=ProxyLinker.predict):
        if len(linked) == n:
            raise error
        linked.extend(doc.text for doc in docs)
        return predict(linker, docs)

    monkeypatch.setattr(ProxyLinker, "predict", broken)
    return linked


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "xml", "parquet", "spacy"])
def test_it_goes_on_where_it_was_broken_off(
    run, tiny_folder: Path, twelve: Path, out: Path, monkeypatch, suffix: str
) -> None:
    out = out.with_suffix(f".{suffix}")
    whole = out.with_name(f"whole.{suffix}")
    arguments = ("link", tiny_folder, twelve, "--batch-size", 1, "-o")
    run(*arguments, whole)
    with monkeypatch.context() as patch:
        breaking_after(5, KeyboardInterrupt(), patch)
        assert "the same command goes on" in run(*arguments, out, code=130)
    with monkeypatch.context() as patch:
        linked = breaking_after(3, OSError(errno.ENOSPC, "No space left"), patch)
        assert "Going on after 4 documents" in run(*arguments, out, code=1)
        assert [text[:7] for text in linked] == ["Case 4:", "Case 5:", "Case 6:"]
    linked = breaking_after(-1, KeyboardInterrupt(), monkeypatch)
    output = run(*arguments, out)
    assert "Going on after 6 documents" in output
    assert "Linked 24 mentions of 12 documents" in output
    assert [text[5:7] for text in linked] == ["6:", "7:", "8:", "9:", "10", "11"]
    assert out.read_bytes() == whole.read_bytes()
    assert {path.name for path in out.parent.iterdir()} == {out.name, whole.name}


def test_another_input_or_pipeline_is_linked_anew(
    run, tiny_folder: Path, twelve: Path, tmp_path: Path, out: Path, monkeypatch
) -> None:
    arguments = ("link", tiny_folder, twelve, "--batch-size", 1, "-o", out)
    with monkeypatch.context() as patch:
        breaking_after(9, KeyboardInterrupt(), patch)
        run(*arguments, code=130)
        twelve.write_text(twelve.read_text().replace("Case 3", "Case X"))
    with monkeypatch.context() as patch:
        linked = breaking_after(3, KeyboardInterrupt(), patch)
        output = run(*arguments, code=130)
        assert "The input is not what it was from about document 3 on" in output
        assert linked[0].startswith("Case 2:") and linked[1].startswith("Case X:")
    output = run(*arguments, "--candidates", 3)
    assert "was begun with another number of candidates; starting anew" in output
    run(
        "link",
        tiny_folder,
        twelve,
        "--batch-size",
        1,
        "-o",
        tmp_path / "a.jsonl",
        "--candidates",
        3,
    )
    assert out.read_bytes() == (tmp_path / "a.jsonl").read_bytes()


def bad_lines(path: Path) -> Path:
    path.write_text(f"{json.dumps(GIVEN)}\nnonsense\n{json.dumps({'text': TEXT})}\n{{}}\n")
    return path


def test_bad_documents_are_skipped_or_stop_the_run(
    run, tiny_folder: Path, tmp_path: Path, out: Path, monkeypatch
) -> None:
    monkeypatch.setattr("spacy_pel.cli.bulk.PART", 3)
    arguments = ("link", tiny_folder, bad_lines(tmp_path / "docs.jsonl"), "-o", out)
    output = run(*arguments, "--on-error", "skip")
    assert "Skipped document 2: " in output and "docs.jsonl, line 2: bad JSON" in output
    assert "Skipped document 4: " in output and "line 4: 'text' is missing" in output
    assert "Linked 3 mentions of 2 documents, 2 skipped" in output
    assert [record["text"] for record in records(out)] == [GIVEN["text"], TEXT]
    output = run(*arguments, code=1)
    assert "document 2: " in output and "or leave it out with --on-error skip" in output
    assert len(records(out)) == 2  # as it was


@pytest.mark.timeout(120)
@pytest.mark.parametrize("n_process", [1, 2])
def test_a_document_that_a_component_fails_at(
    run, tiny_folder: Path, twelve: Path, out: Path, monkeypatch, n_process: int
) -> None:
    def broken(linker: ProxyLinker, docs: list[Doc], predict=ProxyLinker.predict):
        if any(doc.text.startswith("Case 3:") for doc in docs):
            raise RuntimeError("odd\nsize")
        return predict(linker, docs)

    monkeypatch.setattr(ProxyLinker, "predict", broken)
    arguments = ("link", tiny_folder, twelve, "-o", out, "--n-process", n_process)
    output = run(*arguments, "--on-error", "skip")
    assert "Skipped document 4: " in output
    assert "twelve.txt, line 4: a component fails at it: RuntimeError: odd size" in output
    assert [record["text"][5:7] for record in records(out)] == [
        *("0:", "1:", "2:", "4:", "5:", "6:", "7:", "8:", "9:", "10", "11")
    ]
    if n_process == 1:
        assert "document 4: " in run(*arguments, code=1)


def test_a_component_that_fails_at_every_document_is_a_bug(
    tiny_nlp: Language, tiny_folder: Path, twelve: Path, out: Path, monkeypatch
) -> None:
    breaking_after(0, RuntimeError("broken"), monkeypatch)
    arguments = ["link", str(tiny_folder), str(twelve), "-o", str(out), "--on-error", "skip"]
    result = CliRunner().invoke(pel, arguments)
    assert isinstance(result.exception, RuntimeError)


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


def test_a_folder_is_linked_and_not_written_to(
    run, tiny_folder: Path, text: Path, out: Path
) -> None:
    run("link", tiny_folder, text.parent, "-o", out)
    assert [record["id"] for record in records(out)] == ["docs"]
    output = run("link", tiny_folder, text.parent, "-o", text.parent / "o.jsonl", code=1)
    assert "is in the folder that is read; write it somewhere else" in output


# Where many processes share a core, to start the program and the fixtures alone takes minutes.
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_run_goes_on(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("".join(f"Case {n}: {TEXT}\n" for n in range(20_000)))
    command = [sys.executable, "-m", "spacy", "pel", "link", tiny_folder, tmp_path / "in.txt", "-o"]
    subprocess.run([*command, tmp_path / "whole.jsonl"], check=True)
    random = Random(0)
    out, parts = tmp_path / "out.jsonl", tmp_path / "out.jsonl.parts"
    for kill in range(10):
        process = subprocess.Popen([*command, out])
        while len(list(parts.glob("*.json"))) <= kill + 1:
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(random.random())
        process.kill()
        process.wait()
    subprocess.run([*command, out], check=True)
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert not parts.exists()


@pytest.mark.timeout(120)
def test_processes_change_nothing(run, tiny_folder: Path, text: Path, out: Path) -> None:
    arguments = ("link", tiny_folder, text, "--batch-size", 1, "-o")
    run(*arguments, out)
    run(*arguments, out.with_name("2.jsonl"), "--n-process", 2)
    assert out.with_name("2.jsonl").read_bytes() == out.read_bytes()


def test_the_input_is_read_as_a_stream(tiny_nlp: Language) -> None:
    taken = count()

    def endless() -> Iterator[Doc]:
        while True:
            next(taken)
            yield tiny_nlp.make_doc(TEXT)

    assert len(list(islice(link_documents(tiny_nlp, endless(), batch_size=4), 6))) == 6
    assert next(taken) <= 12


def test_without_any_mention_there_is_one_warning(
    run, tiny_nlp: Language, tmp_path: Path, out: Path
) -> None:
    tiny_nlp.remove_pipe("entity_ruler")
    tiny_nlp.to_disk(tmp_path / "pipeline")
    output = run("link", tmp_path / "pipeline", "-", "-o", out, stdin=b"MS\nRA\n")
    assert output.count("No mention found by the pipeline (proxy_linker)") == 1
    assert "add a component that finds some before the linker" in output
    assert [record["mentions"] for record in records(out)] == [[], []]


@pytest.mark.parametrize(
    "error, code, message",
    [
        (KeyboardInterrupt(), 130, "interrupted; what is linked is kept beside the output"),
        (OSError(errno.ENOSPC, "No space left"), 1, "No space left; what is linked is kept"),
    ],
)
def test_breaking_off_leaves_what_was_there(
    run, tiny_folder: Path, text: Path, out: Path, monkeypatch, error, code: int, message: str
) -> None:
    def broken(linker: ProxyLinker, docs: list[Doc], predict=ProxyLinker.predict):
        if docs[0].text == TEXT:
            return predict(linker, docs)
        raise error

    monkeypatch.setattr(ProxyLinker, "predict", broken)
    arguments = ("link", tiny_folder, text, "-o", out, "--batch-size", 1)
    assert message in run(*arguments, code=code)
    assert list(out.parent.iterdir()) == []
    out.write_text("old")
    run(*arguments, code=code)
    assert [(path.name, path.read_text()) for path in out.parent.iterdir()] == [(out.name, "old")]


def test_a_bad_line_leaves_nothing(run, tiny_folder: Path, tmp_path: Path, out: Path) -> None:
    (tmp_path / "docs.jsonl").write_text(f"{json.dumps(GIVEN)}\nnonsense\n", encoding="utf8")
    output = run("link", tiny_folder, tmp_path / "docs.jsonl", "-o", out, code=1)
    assert "docs.jsonl, line 2: bad JSON" in output
    assert list(out.parent.iterdir()) == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("fault", ["input", "output"])
def test_workers_do_not_outlive_an_error(tiny_nlp: Language, fault: str) -> None:
    # Enough for workers and queues to be full: then spaCy alone would wait for ever.
    def docs() -> Iterator[Doc]:
        for _ in range(400):
            yield tiny_nlp.make_doc(TEXT)
        if fault == "input":
            raise PelError("at the end")

    with pytest.raises(PelError):
        for n, _ in enumerate(link_documents(tiny_nlp, docs(), batch_size=100, n_process=2)):
            if fault == "output" and n == 2:
                raise PelError("disk full")
    assert multiprocessing.active_children() == []


# Where many processes share a core, to start the program and the fixtures alone takes minutes.
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("n_process", [1, 2])
@pytest.mark.parametrize(
    "number, code, message",
    [
        (
            signal.SIGINT,
            130,
            "Error: interrupted; what is linked is kept beside the output, and the same command "
            "goes on from there",
        ),
        (signal.SIGTERM, 143, ""),
    ],
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
    assert "Traceback" not in errors
    assert not out.exists()
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "error, message",
    [
        (PelError("the KB has gone; build it"), "Error: the KB has gone; build it"),
        (RuntimeError("odd\nsize"), "Error: a worker failed: RuntimeError: odd size; use one"),
        (ValueError("odd"), "Error: a worker failed: ValueError: odd; use one process to see"),
    ],
)
def test_an_error_in_a_worker_is_one_line(
    run, tiny_folder: Path, tmp_path: Path, out: Path, monkeypatch, error, message: str
) -> None:
    def broken(linker: ProxyLinker, docs: list[Doc], predict=ProxyLinker.predict):
        if docs[0].text == TEXT:
            return predict(linker, docs)
        raise error

    monkeypatch.setattr(ProxyLinker, "predict", broken)
    path = tmp_path / "docs.txt"
    path.write_text(f"{TEXT}\nMS\n" + f"{TEXT}\n" * 200)  # more than the pipes hold
    output = run("link", tiny_folder, path, "-o", out, "--batch-size", 1, "--n-process", 2, code=1)
    assert message in output
    assert "E871" not in output
    assert list(out.parent.iterdir()) == []
    assert multiprocessing.active_children() == []


def test_tokenizers_say_nothing_of_forks(tiny_nlp: Language, capfd) -> None:
    list(tiny_nlp.pipe([TEXT] * 4))  # in parallel, if there are cores
    before = dict(os.environ)
    assert len(list(tiny_nlp.pipe([TEXT] * 4, n_process=2, batch_size=2))) == 4
    assert "TOKENIZERS_PARALLELISM" not in capfd.readouterr().err
    assert dict(os.environ) == before


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
    assert "linked.pdf: what to write? give it one of these suffixes: .jsonl, .csv" in output
    assert [path.name for path in text.parent.iterdir()] == [text.name]


def test_a_pipeline_without_a_linker_is_refused() -> None:
    with pytest.raises(PelError, match='no linker "proxy_linker" among its components .none.'):
        next(link_documents(spacy.blank("en"), []))
