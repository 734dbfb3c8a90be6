"""What acronyms, exact names and labels add to a linker on gold mentions.

    python benchmarks/extras.py PIPELINE CORPUS... --labels '{"Disease": ["Disease"]}'

Prints recall in percent over the mentions whose entity is in the KB. The weight of exact names is
fitted on one half of the documents and used on the other, and the other way round. With --kb KB
--entities N the linker searches a part of KB, which is embedded for this: the entities of the
mentions, and others drawn at random.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import spacy
import typer
from spacy.training import Example

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.evaluation.feature_weight import feature_weight
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.linking.calibration import FittedWeight
from spacy_pel.linking.exact_names import exact_name_matches
from spacy_pel.pipeline.doc_mentions import mentions_in_context
from spacy_pel.pipeline.gold import gold_numbers
from spacy_pel.pipeline.proxy_linker import ProxyLinker
from spacy_pel.spans import gold_ids, mention_spans
from spacy_pel.tasks.embedding import embed_kb

KS = (1, 5, 16, 64)


class Table(NamedTuple):
    """The candidates of the n mentions whose entity is in the KB.

    Attributes:
        scores: Float [n, k], the scores that order them.
        named: bool [n, k], whether the mention is a name of the candidate.
        right: bool [n, k], whether the candidate is right.
        half: int [n], 0 or 1, the half of the documents that the mention is in.
    """

    scores: np.ndarray
    named: np.ndarray
    right: np.ndarray
    half: np.ndarray


def linked(linker: ProxyLinker, examples: list[Example]) -> Table:
    """Link the examples' gold mentions."""
    tables = []
    for i, example in enumerate(examples):
        linked_spans = linker.predict([example.predicted])
        if linked_spans is None:
            continue
        links = linked_spans.links
        golds = [
            [n for n in map(linker.kb.number, gold_ids(span)) if n is not None]
            for span in mention_spans(example.reference, linker.spans_key)
        ]
        right = np.array([np.isin(row, gold) for row, gold in zip(links.numbers, golds)])
        in_kb = np.array([len(gold) > 0 for gold in golds])
        half = np.full(len(golds), i % 2)
        tables.append([x[in_kb] for x in (links.ranking_scores, links.named, right, half)])
    return Table(*map(np.concatenate, zip(*tables)))


def recalls(table: Table, weights: tuple[float, float]) -> str:
    """The cells of recall@k; exact names have a weight for the mentions of each half."""
    scores = table.scores + np.array(weights)[table.half][:, None] * table.named
    order = np.argsort(-scores, axis=1, kind="stable")
    right = np.take_along_axis(table.right, order, axis=1)
    return " | ".join(f"{100 * right[:, :k].any(axis=1).mean():.1f}" for k in KS)


def fitted(table: Table) -> tuple[float, float]:
    """For each half the weight that is fitted on the other half."""
    first, second = (
        feature_weight(*(x[table.half == half] for x in table[:3])) or 0.0 for half in (0, 1)
    )
    return second, first


def look_up_rate(linker: ProxyLinker, examples: list[Example]) -> float:
    """The number of mentions a second that are compared with the names of 64 candidates."""
    docs = [example.predicted for example in examples]
    numbers = linker.kb.numbers()[:64]
    started, n = time.perf_counter(), 0
    for doc in docs:
        mentions = mentions_in_context(doc, mention_spans(doc, linker.spans_key), False)
        exact_name_matches(linker.kb, mentions, np.tile(numbers, (len(mentions), 1)))
        n += len(mentions)
    return n / (time.perf_counter() - started)


def link_to_a_part(
    linker: ProxyLinker, path: Path, examples: list[Example], n: int, folder: Path
) -> None:
    """Have the linker search n entities of a KB, among them the gold ones, with its own vectors."""
    kb = KnowledgeBase.open(path)
    wanted = sorted(gold_numbers(examples, kb, linker.spans_key))
    others = np.random.default_rng(0).permutation(np.setdiff1d(kb.numbers(), wanted))
    numbers = np.sort(np.concatenate([wanted, others[: max(0, n - len(wanted))]]).astype(int))
    part = build_kb(kb.entities(numbers), folder / "kb").path
    linker.finish_training()
    embed_kb(part, linker)
    linker.set_kb(part)


def measure(linker: ProxyLinker, examples: list[Example], label_types: dict | None) -> None:
    """Print a table of recalls, for each setting without and with exact names."""
    print("| | weight of names | @1 | @5 | @16 | @64 |\n|---|---|---:|---:|---:|---:|")
    for types in [None, label_types] if label_types else [None]:
        for resolve_abbreviations in (False, True):
            linker.label_types, linker.resolve_abbreviations = types, resolve_abbreviations
            table = linked(linker, examples)
            used = (
                ", ".join(["acronyms"] * resolve_abbreviations + ["labels"] * bool(types))
                or "plain"
            )
            weights = fitted(table)
            print(f"| {used} | none | {recalls(table, (0, 0))} |")
            print(f"| {used} | {weights[0]:.3f}, {weights[1]:.3f} | {recalls(table, weights)} |",
                  flush=True)  # fmt: skip
    print(f"\n{len(table.scores):,} mentions in the KB; names looked up for "
          f"{look_up_rate(linker, examples):,.0f} mentions a second", flush=True)  # fmt: skip


def main(
    pipeline: Path,
    corpus: list[str],
    labels: Annotated[str | None, typer.Option(help="JSON: the entity types of each label")] = None,
    limit: Annotated[int, typer.Option(help="Documents read of each corpus; 0: all")] = 0,
    kb: Annotated[Path | None, typer.Option(help="Search a part of this KB")] = None,
    entities: Annotated[int, typer.Option(help="Entities of that part")] = 2500,
) -> None:
    """Print recall on each CORPUS with acronyms, exact names and labels, and without them."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("proxy_linker")
    linker.candidates, linker.name_weight = max(KS), FittedWeight(0.0, linker.reranked)
    read = {
        name: list(open_corpus(name, limit=limit, spans_key=linker.spans_key)(nlp))
        for name in corpus
    }
    with tempfile.TemporaryDirectory() as folder:
        if kb:
            together = [example for examples in read.values() for example in examples]
            link_to_a_part(linker, kb, together, entities, Path(folder))
        for name, examples in read.items():
            print(f"\n{name}\n")
            measure(linker, examples, json.loads(labels) if labels else None)


if __name__ == "__main__":
    typer.run(main)
