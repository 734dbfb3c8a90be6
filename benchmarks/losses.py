"""Proxy loss and cross-entropy, with and without FGSM, at random negatives: one table.

    python benchmarks/losses.py DATA ENCODER OUTPUT [--steps 300]

DATA is the folder that project.yml calls ``data``; ENCODER a BERT by name or path. Each variant is
trained on BC5CDR and NCBI disease from the same weights with the same batches, the whole of MeSH is
encoded with it, and the gold mentions of both dev splits are linked. Writes OUTPUT/losses.md and
OUTPUT/losses.json. The paper scores cross-entropy with the dot product and its own loss with the
cosine, and so does this.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import typer

CONFIG = Path(__file__).parent.parent / "project" / "configs" / "mesh.cfg"
CORPORA = {"BC5CDR": "bc5cdr", "NCBI disease": "ncbi_disease"}
PROXY = {"loss.@losses": "spacy-pel.ProxyLoss.v1"}
ENTROPY = {"loss": '{"@losses":"spacy-pel.CrossEntropyLoss.v1"}', "model.similarity": "dot"}
NO_FGSM = {"regularizer": "null"}
VARIANTS = {
    "proxy": {**PROXY, **NO_FGSM},
    "cross-entropy": {**ENTROPY, **NO_FGSM},
    "proxy + FGSM": PROXY,
    "cross-entropy + FGSM": ENTROPY,
}
RANDOM = {"negatives": '{"@misc":"spacy-pel.RandomNegatives.v1","n":32,"in_batch":false}'}
METRICS = ("recall@1", "recall@5", "recall@64", "mrr")


def main(data: Path, encoder: str, output: Path, steps: int = 300) -> None:
    """Train, embed and evaluate all variants."""
    output.mkdir(parents=True, exist_ok=True)
    kb = output / "kb"
    _spacy("pel", "kb", "build", data / "kb" / "mesh.jsonl.gz", kb)
    results = {}
    for name, settings in VARIANTS.items():
        folder = output / name.replace(" + ", "-")
        results[name] = _run(folder, settings, data, encoder, kb, steps)
        (output / "losses.json").write_text(json.dumps(results, indent=2))
        (output / "losses.md").write_text(_table(results))
    print(_table(results))


def _run(folder: Path, settings: dict, data: Path, encoder: str, kb: Path, steps: int) -> dict:
    """Training seconds, and for each corpus the metrics of its dev mentions."""
    overrides = {
        **{f"components.proxy_linker.{k}": v for k, v in {**RANDOM, **settings}.items()},
        "paths.kb": kb,
        "paths.data": data,
        "paths.encoder": encoder,
        "training.max_steps": steps,
        "training.optimizer.learn_rate.total_steps": steps,
        "training.optimizer.learn_rate.warmup_steps": steps // 10,
        # Only the end counts: one look at a few documents before and after.
        "training.eval_frequency": steps,
        "corpora.dev.limit": 1,
        "initialize.components.proxy_linker.searched_entities": 10,
    }
    start = time.perf_counter()
    arguments = [part for key, value in overrides.items() for part in (f"--{key}", value)]
    _spacy("train", CONFIG, "--output", folder, *arguments)
    result = {"training seconds": round(time.perf_counter() - start)}
    _spacy("pel", "kb", "embed", kb, folder / "model-last")
    for corpus, directory in CORPORA.items():
        metrics = folder / f"{directory}.json"
        dev = data / "corpora" / directory / "dev.pubtator.txt.gz"
        _spacy("pel", "evaluate", folder / "model-last", dev, "--output", metrics)
        result[corpus] = json.loads(metrics.read_text())
    return result


def _spacy(*arguments) -> None:
    subprocess.run([sys.executable, "-m", "spacy", *map(str, arguments)], check=True)


def _table(results: dict) -> str:
    columns = [f"{corpus} {metric}" for corpus in CORPORA for metric in METRICS]
    lines = ["| in KB | " + " | ".join(columns) + " | training s |", "|---" * (len(columns) + 2) + "|"]
    for name, result in results.items():
        cells = [f"{100 * result[c][m]['in_kb']:.1f}" for c in CORPORA for m in METRICS]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {result['training seconds']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    typer.run(main)
