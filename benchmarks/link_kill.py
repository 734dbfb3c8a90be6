"""``pel link`` killed (SIGKILL) at random moments and resumed, against one unbroken run.

    python benchmarks/link_kill.py PIPELINE OUT --documents 20000 --kills 10

Writes documents made of the demo's sentences to the folder OUT, whose contents are replaced. Links
them once without a break, and once with kills spread over the whole run. Compares the two outputs
byte for byte, and ends with 1 if they differ.
"""

from __future__ import annotations

import filecmp
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import typer
from wasabi import msg

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.jobs.link_files import DOCUMENTS_PER_PART

CORPUS = Path(__file__).parents[1] / "project" / "assets" / "demo" / "corpus"


class Kill(NamedTuple):
    """A process that was killed.

    Attributes:
        seconds: The time that it ran.
        documents: The number of documents in finished parts when it was killed.
    """

    seconds: float
    documents: int


def main(
    pipeline: str,
    out: Path,
    documents: int = 20_000,
    kills: int = 10,
    seed: int = 0,
) -> None:
    """Link DOCUMENTS with PIPELINE in the folder OUT, unbroken and with KILLS."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    choices = random.Random(seed)
    write_documents(out / "documents.txt", documents, choices)
    command = [sys.executable, "-m", "spacy", "pel", "link", pipeline, str(out / "documents.txt")]
    whole, broken = out / "unbroken.jsonl", out / "killed.jsonl"
    unbroken = seconds_of([*command, "-o", whole])

    parts = broken.with_name(f"{broken.name}.parts")
    moments = sorted(choices.uniform(0, 0.97) for _ in range(kills))
    started = time.perf_counter()
    done = [killed_at([*command, "-o", broken], parts, m, documents, unbroken) for m in moments]
    last = seconds_of([*command, "-o", broken])
    report(done, last, documents)
    resumed = time.perf_counter() - started
    print(f"Unbroken: {unbroken:,.0f} s; with {kills} kills: {resumed:,.0f} s")
    same = filecmp.cmp(whole, broken, shallow=False) and not parts.exists()
    print("The outputs are the same, byte for byte." if same else "THE OUTPUTS DIFFER.")
    raise typer.Exit(0 if same else 1)


def seconds_of(command: list) -> float:
    """How long a command runs, which must end well."""
    started = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - started


def write_documents(path: Path, n: int, choices: random.Random) -> None:
    """Write n distinct documents, one a line, each of one or two sentences of the demo's corpora."""
    texts = [
        d.text for file in sorted(CORPUS.glob("*.pubtator")) for d in open_corpus(file).documents()
    ]
    sentences = [s for text in texts for s in re.split(r"(?<=[.?!])\s+", text)]
    with open(path, "w", encoding="utf8") as file:
        for number in range(1, n + 1):
            chosen = choices.sample(sentences, choices.randint(1, 2))
            file.write(f"Case {number}: {' '.join(chosen)}\n")


def killed_at(command: list, parts: Path, moment: float, documents: int, unbroken: float) -> Kill:
    """Start the command, and kill it when a share of the documents is linked.

    Args:
        command: The command.
        parts: The folder of its finished parts.
        moment: The share, from 0 to 1. The time that it takes within a part is estimated from an
            unbroken run.
        documents: The number of all documents.
        unbroken: The seconds of an unbroken run.
    """
    n_parts, rest = divmod(moment * documents, DOCUMENTS_PER_PART)
    started = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while finished(parts) < n_parts and process.poll() is None:
        time.sleep(0.005)
    time.sleep(rest / documents * unbroken)
    process.kill()
    if process.wait() != -9:
        sys.exit(f"ended with {process.returncode} before it was killed")
    return Kill(time.perf_counter() - started, min(finished(parts) * DOCUMENTS_PER_PART, documents))


def finished(parts: Path) -> int:
    """The number of finished parts."""
    return len(list(parts.glob("[0-9]*.json")))


def report(kills: list[Kill], last: float, documents: int) -> None:
    """Print a table of the runs."""
    rows = [(n, f"{k.seconds:,.1f}", f"{k.documents:,}") for n, k in enumerate(kills, 1)]
    rows.append(("to the end", f"{last:,.1f}", f"{documents:,}"))
    header = ("killed", "after, s", "documents kept")
    msg.table(rows, header=header, divider=True, aligns=("r", "r", "r"))


if __name__ == "__main__":
    typer.run(main)
