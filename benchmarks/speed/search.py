"""The time of a search, and the share of exact search's candidates that it finds.

    OMP_NUM_THREADS=1 python benchmarks/speed/search.py PIPELINE --kb KB --kb KB-128 --documents OUT/documents.json

Times are processor time in ms a mention, on one thread, the best of three. ``run.py`` writes OUT, and
the pipeline encodes its mentions. "Share of exact" is the share of exact search's candidates, over
the same vectors, that are found. "First" is the share of mentions whose first candidate is the same.
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
from spacy_pel.pipeline.doc_mentions import mentions_in_context
from spacy_pel.spans import mention_spans

CANDIDATES = (64, 16, 5)


class Measured(NamedTuple):
    """The figures of a search for a number of candidates.

    Attributes:
        candidates: The number of candidates.
        ms: The processor time of a mention.
        recall: The percentage of mentions that have a right id among the candidates.
        share: The share of exact search's candidates that are found.
        first: The share of mentions whose first candidate is that of exact search.
    """

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
    """Print a table with a line for each knowledge base and number of candidates."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("proxy_linker")
    linker.set_kb(kb[0])
    read = [Document(**d) for d in json.loads(documents.read_text("utf8"))]
    docs = [doc_of(nlp.vocab, document) for document in read]
    resolve = linker.resolve_abbreviations
    mentions = [m for d in docs for m in mentions_in_context(d, mention_spans(d), resolve)]
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
    """Measure a KB at each number of candidates.

    golds: For each vector the right ids that the KB has; without any it is left out of recall.
    """
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
    """The exact index of the vectors of a KB that has one segment."""
    (segment,) = kb.segments
    entry = segment.entry["vectors"]
    matrix, row_entities = opened_rows(segment.folder, entry)
    return VectorIndex(matrix, row_entities, projection=opened_projection(segment.folder, entry))


if __name__ == "__main__":
    typer.run(main)
