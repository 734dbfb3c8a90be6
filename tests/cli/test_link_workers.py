"""Linking in several processes: the same answers, and an orderly end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.errors import PelError

from .link_examples import TEXT, failing_elsewhere


@pytest.mark.timeout(120)
def test_processes_change_nothing(run, tiny_folder: Path, text: Path, out: Path) -> None:
    arguments = ("link", tiny_folder, text, "--batch-size", 1, "-o")
    run(*arguments, out)
    run(*arguments, out.with_name("2.jsonl"), "--n-process", 2)
    assert out.with_name("2.jsonl").read_bytes() == out.read_bytes()


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
        (PelError("the KB has gone", "build it"), "Error: the KB has gone; build it"),
        (
            RuntimeError("odd\nsize"),
            "line 2: a component fails at it: RuntimeError: odd size; correct",
        ),
    ],
)
def test_an_error_in_a_worker_is_one_line(
    run, tiny_folder: Path, tmp_path: Path, out: Path, monkeypatch, error, message: str
) -> None:
    failing_elsewhere(error, monkeypatch)
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
