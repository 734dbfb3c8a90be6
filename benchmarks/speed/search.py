"""What a search costs, and what it finds of what exact search finds.

    OMP_NUM_THREADS=1 python benchmarks/speed/search.py PIPELINE --kb KB --kb KB-128 --documents OUT/documents.json

Processor time in ms a mention, on one thread; the best of three. OUT is that of ``run.py``; the
vectors are those of its mentions, by the pipeline. The share is of exact search's candidates among
the same vectors, the first that of the mentions whose first candidate is exact search's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import spacy
import typer
from breakdown import best_of
from protocol import Document

from docs import doc_of
from spacy_pel import KnowledgeBase
from spacy_pel.kb.vectors.index import Candidates, VectorIndex
from spacy_pel.kb.vectors.stored_index import opened_projection, opened_rows
from spacy_pel.pipeline.mentions import mentions_of

CANDIDATES = (64, 16, 5)


class Measured(NamedTuple):
    """ms: a mention. recall: at as many candidates. share, first: of exact search's."""

    candidates: int
    ms: float
    recall: float
    share: float
    first: float


def main(
    pipeline: str,
    kb: Annotated[list[Path], typer.Option(help="An embedded knowledge base; may be repeated")],
    documents: Annotated[Path, typer.Option(help="Written by run.py")],
) -> None:
    """Print a table, a line for each knowledge base and number of candidates."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("proxy_linker")
    linker.set_kb(kb[0])
    read = [Document(**d) for d in json.loads(documents.read_text("utf8"))]
    docs = [doc_of(nlp.vocab, document) for document in read]
    mentions = mentions_of(docs, None, linker.resolve_abbreviations)
    vectors = linker.retriever.mention_vectors(mentions)
    golds = [gold for document in read for gold in document.golds]
    print("| | candidates | ms a mention | recall@ them | share of exact | first |")
    print("|---|---:|---:|---:|---:|---:|")
    for folder in kb:
        with KnowledgeBase.open(folder) as opened:
            for line in measured(opened, vectors, golds):
                print(
                    f"| {folder.name} | {line.candidates} | {line.ms:.2f} | {line.recall:.1f} "
                    f"| {line.share:.3f} | {line.first:.3f} |",
                    flush=True,
                )


def measured(kb: KnowledgeBase, vectors: np.ndarray, golds: list[list[str]]) -> Iterator[Measured]:
    """golds: for each vector the right ids that the KB has; none: it is not counted in recall."""
    exact = exact_index(kb).search(vectors, max(CANDIDATES))
    right = [{kb.number(id) for id in gold} for gold in golds]
    for k in CANDIDATES:
        seconds = best_of(lambda: kb.search(vectors, k))
        found = kb.search(vectors, k)
        wanted = Candidates(*(x[:, :k] for x in exact))
        hits = [not gold.isdisjoint(line) for gold, line in zip(right, found.numbers) if gold]
        same = [np.isin(a, b).mean() for a, b in zip(wanted.numbers, found.numbers)]
        first = (found.numbers[:, 0] == wanted.numbers[:, 0]).mean()
        ms = 1000 * seconds / len(vectors)
        yield Measured(k, ms, 100 * np.mean(hits), float(np.mean(same)), float(first))


def exact_index(kb: KnowledgeBase) -> VectorIndex:
    """Exact search among the vectors of a KB of one segment."""
    (segment,) = kb.segments
    entry = segment.entry["vectors"]
    matrix, row_entities = opened_rows(segment.folder, entry)
    return VectorIndex(matrix, row_entities, projection=opened_projection(segment.folder, entry))


if __name__ == "__main__":
    typer.run(main)
