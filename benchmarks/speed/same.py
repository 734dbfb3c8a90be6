"""Tell whether answers depend on batches, processes and the runtime.

    python benchmarks/speed/same.py PIPELINE --kb KB --documents OUT/documents.json

The ids of all candidates of all mentions are compared, and the best ids also with those of torch.
``run.py`` writes OUT.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import spacy
import typer
from protocol import Document

from docs import doc_of

BATCHES, PROCESSES = (64, 1), (1, 2)
RUNTIMES = ("torch", "onnx", "onnx-int8")


def main(
    pipeline: str,
    kb: Annotated[str, typer.Option(help="An embedded knowledge base")],
    documents: Annotated[Path, typer.Option(help="Written by run.py")],
) -> None:
    """Print a table with a line for each runtime, batch size and number of processes."""
    read = [Document(**d) for d in json.loads(documents.read_text("utf8"))]
    of_torch = None
    print("| runtime | batch | processes | same ids as in batches of 64 | same first id as torch |")
    print("|---|---:|---:|---:|---:|")
    for runtime in RUNTIMES:
        of_runtime = None
        for batch, n_process in product(BATCHES, PROCESSES):
            ids = answers(pipeline, kb, read, runtime, batch, n_process)
            of_runtime = of_runtime or ids
            of_torch = of_torch or ids
            firsts = np.mean([a[:1] == b[:1] for a, b in zip(ids, of_torch, strict=True)])
            same = np.mean([a == b for a, b in zip(ids, of_runtime, strict=True)])
            print(f"| {runtime} | {batch} | {n_process} | {same:.2%} | {firsts:.1%} |", flush=True)


def answers(
    pipeline: str, kb: str, read: list[Document], runtime: str, batch: int, n_process: int
) -> list[list[str]]:
    """The ids of all candidates of each mention, best first."""
    nlp = spacy.load(pipeline, config={"components": {"proxy_linker": {"runtime": runtime}}})
    nlp.get_pipe("proxy_linker").set_kb(kb)
    docs = [doc_of(nlp.vocab, document) for document in read]
    return [
        list(mention._.kb_candidate_columns.get("id", []))
        for doc in nlp.pipe(docs, batch_size=batch, n_process=n_process)
        for mention in doc.ents
    ]


if __name__ == "__main__":
    typer.run(main)
