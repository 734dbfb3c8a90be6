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

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import spacy
import typer

from spacy_pel import KnowledgeBase
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.spans import gold_ids, mention_spans

HERE = Path(__file__).parent
Command = list[str]
Results = dict[str, dict[str, Any]]


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
    """Measure, and write OUT/results.json and OUT/table.md."""
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
    print(table(results))


def measured(
    commands: dict[str, Command], documents: Path, rounds: int, threads: int
) -> dict[str, dict[str, Any]]:
    """Return the medians over rounds of the metrics of each linker, by name."""
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


def write_documents(kb: KnowledgeBase, corpus: Path, limit: int, out: Path) -> None:
    """Write the first ``limit`` documents of a corpus, or all if it is 0.

    A document has its text, its mentions as [start, end], and for each the gold ids that the KB has.
    """
    documents = []
    for example in open_corpus(corpus, limit=limit)(spacy.blank("en")):
        spans = mention_spans(example.reference, None)
        if spans:
            golds = [[id for id in gold_ids(span) if kb.number(id) is not None] for span in spans]
            ids = [sorted({kb[id].concept_id for id in gold}) for gold in golds]
            mentions = [[span.start_char, span.end_char] for span in spans]
            documents.append({"text": example.text, "mentions": mentions, "golds": ids})
    out.write_text(json.dumps(documents), encoding="utf8")


def write_entities(kb: KnowledgeBase, out: Path) -> None:
    """Write the KB in scispaCy's schema, one line for each entity."""
    with out.open("w", encoding="utf8") as file:
        for entity in kb:
            kept = ("concept_id", "canonical_name", "aliases", "definition")
            record = {name: getattr(entity, name) for name in kept}
            file.write(json.dumps({**record, "types": []}) + "\n")


def table(results: Results) -> str:
    """Return a Markdown table with one line per linker."""
    lines = [
        "| | recall@1 | @64 | mentions/s | document, p50 | p95 | start | memory |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, figures in results.items():
        lines.append(
            f"| {name} | {figures['recall@1']:.1f} | {figures['recall@64']:.1f} "
            f"| {figures['mentions_per_second']:.0f} | {figures['p50_ms']:.0f} ms "
            f"| {figures['p95_ms']:.0f} ms | {figures['start_s']:.1f} s "
            f"| {figures['peak_mb']:.0f} MB |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    typer.run(main)
