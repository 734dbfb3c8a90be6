"""Compare the speed, size and recall of linkers on the same documents, gold mentions and KB.

    python benchmarks/speed/run.py OUT --kb KB --corpus CORPUS \\
        --pipeline document=PIPELINE --pipeline marked=PIPELINE --runtime torch --runtime onnx-int8 \\
        --scispacy PYTHON --pel PYTHON

In each round every linker runs in a process of its own, one after the other. Figures are medians over
rounds; the speed of a round is that of the fastest of three passes. All pipelines have the entity
encoder that has embedded the KB; a pipeline may also have a KB of its own, such as the same KB with
reduced vectors.

The first PYTHON belongs to an environment with scispaCy, which first builds its index (an hour); the
second to one with this package and its extras cpu and onnx. Nothing more should be installed there,
as transformers imports pandas and scikit-learn if it finds them, which takes time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from inputs import write_documents, write_entities
from report import pareto_plot, table

from spacy_pel import KnowledgeBase

HERE = Path(__file__).parent
Command = list[str]


def main(
    out: Path,
    kb: Annotated[Path, typer.Option(help="An embedded knowledge base")],
    corpus: Annotated[Path, typer.Option(help="PubTator file with the gold mentions")],
    pipeline: Annotated[
        list[str],
        typer.Option(help="NAME=FOLDER, or NAME=FOLDER:KB for one with a KB of its own"),
    ],
    runtime: Annotated[
        list[str], typer.Option(help="Runtime of every pipeline; may be repeated")
    ] = ["torch"],
    scispacy: Annotated[Path | None, typer.Option(help="Python that has scispaCy")] = None,
    pel: Annotated[Path, typer.Option(help="Python that has spacy_pel")] = Path(sys.executable),
    index: Annotated[Path | None, typer.Option(help="Folder of scispaCy's index")] = None,
    limit: Annotated[int, typer.Option(help="Documents read of the corpus; 0: all")] = 100,
    rounds: int = 3,
    threads: int = 2,
) -> None:
    """Measure, and write OUT/results.json, OUT/table.md and OUT/pareto.png."""
    out.mkdir(parents=True, exist_ok=True)
    documents, entities = out / "documents.json", out / "entities.jsonl"
    opened = KnowledgeBase.open(kb)
    write_documents(opened, corpus, limit, documents)
    commands = {}
    if scispacy:
        index = index or out / "scispacy"
        write_entities(opened, entities)
        worker = [str(scispacy), str(HERE / "measure_scispacy.py")]
        if not (index / "nmslib_index.bin").exists():
            run([*worker, "index", str(entities), str(index)], threads)
        for kind in ("generator", "linker"):
            commands[f"scispaCy, {kind}"] = [*worker, kind, str(entities), str(index)]
    for named in pipeline:
        name, _, folders = named.partition("=")
        folder, _, own = folders.partition(":")
        for engine in runtime:
            settings = json.dumps({"runtime": engine})
            worker = [str(pel), str(HERE / "measure_pel.py")]
            commands[f"{name}, {engine}"] = [*worker, folder, own or str(kb), settings]
    results = measured(commands, documents, rounds, threads)
    (out / "results.json").write_text(json.dumps(results, indent=1), encoding="utf8")
    (out / "table.md").write_text(table(results), encoding="utf8")
    pareto_plot(results, out / "pareto.png")
    print(table(results))


def measured(
    commands: dict[str, Command], documents: Path, rounds: int, threads: int
) -> dict[str, dict[str, Any]]:
    """The medians over rounds of the figures of each linker, by its name."""
    figures: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
    for round in range(rounds):
        for name, command in commands.items():
            found = json.loads(run([*command, str(documents)], threads))
            figures[name].append(found)
            print(f"round {round + 1}, {name}: {found['mentions_per_second']:.0f} mentions/s")
    return {
        name: {key: median(f[key] for f in found) for key in found[0] if key != "best"}
        | {"best": found[0]["best"]}
        for name, found in figures.items()
    }


def run(command: Command, threads: int) -> str:
    """Run a command with a number of threads; the last line that it prints."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "PYTHONPATH": str(HERE),
        "TOKENIZERS_PARALLELISM": "true",
    }
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return (done.stdout.splitlines() or [""])[-1]


if __name__ == "__main__":
    typer.run(main)
