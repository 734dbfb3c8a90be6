"""Measure the time until a pipeline has linked its first document, and its memory.

    python benchmarks/start.py PIPELINE
    python benchmarks/start.py PIPELINE --serve

Each run is a separate process; the fastest of five is printed. "Processor" time depends less on other
programs. "Private" memory belongs to the process. "Resident" memory includes pages of mapped files, which
other processes share and which the system can reclaim.
"""

import http.client
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import typer
from wasabi import msg

TEXT = "Her MS relapsed."
# Says "ready" after the first document, and waits to be measured.
FIRST_DOCUMENT = """
import sys, spacy
spacy.load(sys.argv[1])(sys.argv[2])
print("ready", flush=True)
input()
"""


class Start(NamedTuple):
    """Seconds to the first answer, and MB of memory after it."""

    seconds: float
    processor: float
    private: float
    resident: float


def main(pipeline: str, serve: bool = False, runs: int = 5) -> None:
    """Start PIPELINE, or a server of it, and print its figures."""
    started = [served(pipeline) if serve else loaded(pipeline) for _ in range(runs)]
    best = [min(figures) for figures in zip(*started)]
    header = ("seconds", "processor, s", "private, MB", "resident, MB")
    row = (*(f"{figure:.1f}" for figure in best[:2]), *(f"{figure:.0f}" for figure in best[2:]))
    msg.table([row], header=header, divider=True, aligns=("r",) * 4)


def loaded(pipeline: str) -> Start:
    """Return a Python program that loads the pipeline and links a text."""
    began = time.perf_counter()
    command = [sys.executable, "-c", FIRST_DOCUMENT, pipeline, TEXT]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        figures = figures_of(process.pid, began)
        process.communicate("\n")
    return figures


def served(pipeline: str) -> Start:
    """Start a server that answers a request."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "spacy", "pel", "serve", pipeline, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said = next(line for line in process.stdout if line.startswith("Serving at "))
        connection = http.client.HTTPConnection(re.search(r"http://(\S+)", said)[1])
        body = json.dumps({"documents": [{"text": TEXT}]})
        connection.request("POST", "/link", body, {"content-type": "application/json"})
        assert connection.getresponse().read()
        figures = figures_of(process.pid, began)
        process.terminate()
    return figures


def figures_of(pid: int, began: float) -> Start:
    """Return the time and memory of a process, from Linux."""
    seconds = time.perf_counter() - began
    statistics = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    memory = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kilobytes = {name: int(kb) for name, kb in re.findall(r"(\w+):\s+(\d+) kB", memory)}
    private = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
    ticks = int(statistics[11]) + int(statistics[12])
    return Start(seconds, ticks / 100, private / 1024, kilobytes["Rss"] / 1024)


if __name__ == "__main__":
    typer.run(main)
