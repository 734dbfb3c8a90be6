"""Proxy loss and cross-entropy, with and without FGSM, at random negatives: one table.

    python benchmarks/losses.py DATA ENCODER OUTPUT [--steps 300] [--entities 20000]

DATA is the folder that project.yml calls ``data``; ENCODER is the name or path of a BERT. Each
variant is trained on BC5CDR and NCBI disease, from the same weights and with the same batches. Then
it encodes MeSH, and links the gold mentions of both dev splits. Encoding all of MeSH takes long on a
CPU. So --entities takes a part of it, with all gold entities of both corpora; figures are then
higher than on the whole, and comparable with each other. As in the paper, cross-entropy scores by
the dot product and the proxy loss by the cosine. Writes OUTPUT/losses.md and OUTPUT/losses.json.
"""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import typer

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.kb import build_kb, open_source

CONFIG = Path(__file__).parent.parent / "project" / "configs" / "mesh.cfg"
CORPORA = {"BC5CDR": "bc5cdr", "NCBI disease": "ncbi_disease"}
PROXY = {"loss": '{"@losses":"spacy-pel.ProxyLoss.v1","alpha":32,"delta":0}'}
ENTROPY = {"loss": '{"@losses":"spacy-pel.CrossEntropyLoss.v1"}', "model.similarity": "dot"}
FGSM = {"regularizer": '{"@misc":"spacy-pel.FGSM.v1","epsilon":0.01,"weight":1.0}'}
VARIANTS = {
    "proxy": PROXY,
    "cross-entropy": ENTROPY,
    "proxy + FGSM": {**PROXY, **FGSM},
    "cross-entropy + FGSM": {**ENTROPY, **FGSM},
}
RANDOM = {"negatives": '{"@misc":"spacy-pel.RandomNegatives.v1","n":32,"in_batch":false}'}
METRICS = ("recall@1", "recall@5", "recall@64", "mrr")


def main(
    data: Path, encoder: str, output: Path, steps: int = 300, entities: int = 1_000_000
) -> None:
    """Train, embed and evaluate all variants."""
    output.mkdir(parents=True, exist_ok=True)
    kb = output / "kb"
    build_kb(_some_entities(data, entities), kb, sources=[str(data / "kb" / "mesh.jsonl.gz")])
    results = {}
    for name, settings in VARIANTS.items():
        folder = output / name.replace(" + ", "-")
        results[name] = _run(folder, settings, data, encoder, kb, steps)
        (output / "losses.json").write_text(json.dumps(results, indent=2))
        (output / "losses.md").write_text(_table(results))
    print(_table(results))


def _some_entities(data: Path, n: int) -> list:
    """The gold entities of MeSH, and others drawn at random until they are n."""
    golds = {
        id
        for directory in CORPORA.values()
        for path in (data / "corpora" / directory).glob("*.pubtator.txt.gz")
        for document in open_corpus(path).documents()
        for mention in document.mentions
        for id in mention.ids
    }
    entities = list(open_source(data / "kb" / "mesh.jsonl.gz").entities)
    wanted = [e for e in entities if not golds.isdisjoint((e.concept_id, *e.alt_ids))]
    others = [e for e in entities if golds.isdisjoint((e.concept_id, *e.alt_ids))]
    random.Random(0).shuffle(others)
    return wanted + others[: max(0, n - len(wanted))]


def _run(folder: Path, settings: dict, data: Path, encoder: str, kb: Path, steps: int) -> dict:
    """Train and evaluate: the seconds of training, and the metrics of each corpus' dev mentions."""
    overrides = {
        **{f"components.proxy_linker.{k}": v for k, v in {**RANDOM, **settings}.items()},
        "paths.kb": kb,
        "paths.data": data,
        "paths.encoder": encoder,
        "training.max_steps": steps,
        "training.optimizer.learn_rate.total_steps": steps,
        "training.optimizer.learn_rate.warmup_steps": steps // 10,
        # Only the final evaluation is used: those during training see one document.
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
    lines = [
        "| in KB | " + " | ".join(columns) + " | training s |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for name, result in results.items():
        cells = [f"{100 * result[c][m]['in_kb']:.1f}" for c in CORPORA for m in METRICS]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {result['training seconds']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    typer.run(main)
