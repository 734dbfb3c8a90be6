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

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span

from spacy_pel.cli.link import link_documents
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
    run("link", tiny_folder, "-", "-o", out.with_name("2"), stdin=text.read_bytes())
    assert out.with_name("2").read_bytes() == out.read_bytes()
    output = run("link", tiny_folder, "-", "-o", out.with_name("3"), stdin=b"a\n\xff\n", code=1)
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
    run("link", tiny_folder, tmp_path / "docs.spacy", "-o", tmp_path / "o", "--spans-key", "mine")
    (record,) = records(tmp_path / "o")
    assert [m["text"] for m in record["mentions"]] == ["MS", "MS and aspirin"]
    assert all(len(m["candidates"]) == 5 for m in record["mentions"])


@pytest.mark.parametrize("n_process", [1, 2])
@pytest.mark.timeout(120)
def test_memory_zones_change_nothing(
    run, tiny_folder: Path, tmp_path: Path, monkeypatch, n_process: int
) -> None:
    nlp = spacy.blank("en")
    docs = [nlp(f"Aspirin{n} relieves headache and w{n}") for n in range(7)]
    for doc in docs[:5]:
        doc.ents = [Span(doc, 0, 1, label=f"L{len(doc.text)}"), Span(doc, 4, 5, label="W")]
    DocBin(docs=docs).to_disk(tmp_path / "docs.spacy")
    arguments = ("link", tiny_folder, tmp_path / "docs.spacy", "--n-process", n_process)
    arguments += ("--batch-size", 2, "-o")  # divides the zone: batches decide the last bits
    run(*arguments, tmp_path / "one")
    monkeypatch.setattr("spacy_pel.cli.link.ZONE", 4)
    run(*arguments, tmp_path / "many")
    assert len(records(tmp_path / "one")) == 7
    assert records(tmp_path / "many") == records(tmp_path / "one")


@pytest.mark.timeout(120)
def test_processes_change_nothing(run, tiny_folder: Path, text: Path, out: Path) -> None:
    arguments = ("link", tiny_folder, text, "--batch-size", 1, "-o")
    run(*arguments, out)
    run(*arguments, out.with_name("2"), "--n-process", 2)
    assert out.with_name("2").read_bytes() == out.read_bytes()


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
        (KeyboardInterrupt(), 130, "interrupted; nothing was written"),
        (OSError(errno.ENOSPC, "No space left"), 1, "linked.jsonl: No space left; nothing was"),
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
        (signal.SIGINT, 130, "Error: interrupted; nothing was written"),
        (signal.SIGTERM, 143, ""),
    ],
)
def test_a_signal_ends_workers_and_leaves_nothing(
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
        while not any(path.stat().st_size for path in out.parent.glob(".*")):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        os.killpg(process.pid, number)
        errors = process.stderr.read()
        assert process.wait(60) == code
    assert errors.splitlines()[-1].endswith(message)
    assert "Traceback" not in errors
    assert list(out.parent.iterdir()) == []
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
    output = run("link", tiny_folder, "no.txt", "-o", text.parent / "out", code=1)
    assert "no.txt: no such file; give" in output
    output = run("link", tiny_folder, text, "-o", text.parent, code=1)
    assert "is a folder or a device; give the path of a file" in output
    assert [path.name for path in text.parent.iterdir()] == [text.name]


def test_a_pipeline_without_a_linker_is_refused() -> None:
    with pytest.raises(PelError, match='no linker "proxy_linker" among its components .none.'):
        next(link_documents(spacy.blank("en"), []))
