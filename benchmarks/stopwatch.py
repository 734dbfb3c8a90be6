"""From an ontology to a linked file, by a newcomer's stopwatch.

    python benchmarks/stopwatch.py doid.obo sentences.txt ENCODER

The commands are those that docs/any-ontology.md shows first, each as a program of its own. Of each the
benchmark prints the seconds by the clock, and those of the processor, which other programs on the
computer change less.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from wasabi import msg

PEL = [sys.executable, "-m", "spacy", "pel"]


def main(
    ontology: Path,
    texts: Annotated[Path, typer.Argument(help="A text on each line")],
    encoder: str,
    n: Annotated[int, typer.Option(help="Number of texts")] = 1000,
) -> None:
    """Make a linker of ONTOLOGY, and link TEXTS with it."""
    with tempfile.TemporaryDirectory() as folder:
        some, linker, linked = (Path(folder, name) for name in ("t.txt", "linker", "out.jsonl"))
        with open(texts, encoding="utf8") as lines:
            some.write_text("".join(islice(lines, n)), encoding="utf8")
        commands = {
            "pel start": ["start", ontology, linker, "--encoder", encoder],
            "pel link": ["link", linker, some, "--output", linked],
        }
        rows = [(name, *measured(command)) for name, command in commands.items()]
        mentions = linked.read_text(encoding="utf8").count('"start":')
    header = ("command", "seconds", "processor, s")
    msg.table(rows, header=header, divider=True, aligns=("l", "r", "r"))
    msg.text(f"{mentions:,} mentions linked")


def measured(arguments: list) -> tuple[str, str]:
    """The seconds of a command: by the clock, and of the processor."""
    clock, processor = time.perf_counter(), processor_seconds()
    subprocess.run([*PEL, *map(str, arguments)], check=True)
    seconds = time.perf_counter() - clock, processor_seconds() - processor
    return tuple(f"{figure:.1f}" for figure in seconds)


def processor_seconds() -> float:
    """What all programs that this one started have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    typer.run(main)
