"""Linking part by part, in several processes: the same output, also where it was broken off."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import TEXT, breaking_after


@pytest.mark.parametrize("suffix", ["parquet", "spacy"])
def test_it_goes_on_where_it_was_broken_off(
    run, tiny_folder: Path, twelve: Path, out: Path, monkeypatch, suffix: str
) -> None:
    out = out.with_suffix(f".{suffix}")
    whole = out.with_name(f"whole.{suffix}")
    arguments = ("link", tiny_folder, twelve, "--batch-size", 1, "-o")
    run(*arguments, whole)
    with monkeypatch.context() as patch:
        breaking_after(5, KeyboardInterrupt(), patch)
        out.write_text("old")
        said = run(*arguments, out, code=130)
        assert "interrupted; what is linked is kept beside the output, and the same" in said
        assert out.read_text() == "old"
    linked = breaking_after(-1, KeyboardInterrupt(), monkeypatch)
    output = run(*arguments, out)
    assert "Going on after 4 documents" in output
    assert "Linked 24 mentions of 12 documents" in output
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
