import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest
from typer.testing import CliRunner

from spacy_pel.cli import pel
from spacy_pel.serve import network


def failure(*arguments: object) -> str:
    """The line in which ``pel serve`` says why it does not start."""
    result = CliRunner().invoke(pel, ["serve", *map(str, arguments)])
    assert result.exit_code == 1, result.output
    *said, line = result.output.splitlines()
    assert all(other.startswith(("Starting at ", "Loading the pipeline ")) for other in said)
    return line


def test_why_it_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    said = failure("pipeline", "--entity-url", "https://example.org/")
    assert "give one such as https://" in said
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1, port {port}" in failure("pipeline", "--port", port)
    assert "give another --host" in failure("pipeline", "--host", "no.such.host.invalid")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert 'pip install "spacy-pel[serve]"' in failure("pipeline")


@pytest.mark.parametrize("host, is_warned", [("127.0.0.1", False), ("0.0.0.0", True)])
def test_a_warning_beyond_this_computer(tmp_path: Path, host: str, is_warned: bool) -> None:
    arguments = ["serve", str(tmp_path), "--host", host, "--port", "0"]
    output = " ".join(CliRunner().invoke(pel, arguments).output.split())
    assert ("no login" in output) is is_warned and "cannot be loaded" in output


def test_the_address_is_said_at_once(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "run_app", lambda *_: None)
    result = CliRunner().invoke(pel, ["serve", str(tiny_folder), "--port", "0"])
    first, *others = result.output.splitlines()
    url = re.fullmatch(r"Starting at (http://127.0.0.1:\d+); requests wait until it serves", first)
    loading = f"Loading the pipeline {tiny_folder}"
    assert others == [loading, f"Serving at {url[1]} (Ctrl-C stops it)", "Stopped"]


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen, Callable]]:
    """A server as a process, and what gives the answer to a request over a new connection."""
    command = [sys.executable, "-m", "spacy", "pel", "serve", str(folder), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True)
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines[-1].startswith("Serving at "), (lines, process.communicate(timeout=60))
        place = re.search(r"(127\.0\.0\.1:\d+)", lines[-1])[1]

        def answer(path: str, document: dict | None = None, **headers: str) -> tuple[int, str]:
            connection = http.client.HTTPConnection(place, timeout=120)
            if document is None:
                connection.request("GET", path, headers=headers)
            else:
                body = json.dumps({"documents": [document] * 20})
                connection.request("POST", path, body, {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()

        yield process, answer
        rest, errors = process.communicate(timeout=60)
        assert process.returncode == 0 and "Stopped" in rest and "Traceback" not in errors, errors
    finally:
        process.kill()
        process.communicate()


def test_it_answers_what_is_under_way_and_ends(tiny_folder: Path) -> None:
    with serving(tiny_folder) as (process, answer):
        assert answer("/health", host="rebound.example.org")[0] == 400
        threading.Timer(0.2, process.send_signal, [signal.SIGTERM]).start()
        status, body = answer("/link", {"text": "MS or RA? " * 100})
        assert status == 200
        assert [len(d["mentions"]) for d in json.loads(body)["documents"]] == [200] * 20


def test_workers_share_the_address_and_their_counters(tiny_folder: Path) -> None:
    with serving(tiny_folder, "--workers", "2") as (process, answer):
        answers = {answer("/link", {"text": "MS or RA?"}) for _ in range(6)}
        ((status, _),) = answers
        assert status == 200 and "pel_documents_total 120.0" in answer("/metrics")[1]
        process.send_signal(signal.SIGINT)
