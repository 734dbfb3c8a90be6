"""How fast, how large and how good linkers are, side by side: the same documents, gold mentions and KB.

    python benchmarks/speed/run.py OUT --kb KB --corpus CORPUS \\
        --pipeline document=PIPELINE --pipeline marked=PIPELINE --runtime torch --runtime onnx-int8 \\
        --scispacy PYTHON --pel PYTHON

Each linker runs in a process of its own, one after the other, as often as there are rounds; the
figures are medians, the speeds of the quickest of three passes in each. The KB is embedded for all
pipelines, which have their entity encoder in common; another one may be the same KB with reduced
vectors.
PYTHON is one of an environment with scispaCy, which builds its index first (an hour), or with this
package and its extras cpu and onnx: what else is installed counts, as transformers imports pandas
and scikit-learn where it finds them.
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
    runtime: Annotated[list[str], typer.Option(help="Of each pipeline")] = ["torch"],
    scispacy: Annotated[Path | None, typer.Option(help="Python that has scispaCy")] = None,
    pel: Annotated[Path, typer.Option(help="Python that has spacy_pel")] = Path(sys.executable),
    index: Annotated[Path | None, typer.Option(help="Folder of scispaCy's index")] = None,
    limit: Annotated[int, typer.Option(help="The first so many documents; 0 for all")] = 100,
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
    """The medians of the figures of each linker, by its name; all linkers run in each round."""
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
    """What the command prints last; it may use so many threads."""
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
