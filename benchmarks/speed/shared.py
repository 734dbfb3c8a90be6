"""The time of a linker that shares the encoder of another component of its pipeline.

    python benchmarks/speed/shared.py PIPELINE --kb KB --documents OUT/documents.json

PIPELINE has a "transformer" or "tok2vec" and a linker that listens to it (project/configs/shared.cfg);
``run.py`` writes OUT. Each component is measured by itself, by the best of several passes.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import spacy
import typer
from protocol import Document

from docs import doc_of
from spacy_pel.pipeline.pipelines import upstream_of


def main(
    pipeline: Path,
    kb: Annotated[Path, typer.Option(help="A knowledge base that its entity tower has embedded")],
    documents: Annotated[Path, typer.Option(help="Written by run.py")],
    batch_size: int = 100,
    passes: int = 3,
) -> None:
    """Print mentions a second of each component, and recall@1."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("proxy_linker")
    linker.set_kb(kb)
    given = [Document(**document) for document in json.loads(documents.read_text("utf8"))]
    names = [*upstream_of(nlp, "proxy_linker"), "proxy_linker"]
    spent = {name: [] for name in names}
    for number in range(passes + 1):
        docs = [doc_of(nlp.vocab, document) for document in given]
        for name in names:
            began = time.perf_counter()
            docs = list(nlp.get_pipe(name).pipe(docs, batch_size=batch_size))
            if number:  # the first pass warms up
                spent[name].append(time.perf_counter() - began)
    found = [ent.kb_id_ for doc in docs for ent in doc.ents]
    golds = [gold for document in given for gold in document.golds]
    counted = [id in gold for id, gold in zip(found, golds) if gold]
    print("| | mentions a second |\n|---|---:|")
    for name in names:
        print(f"| {name} | {len(found) / min(spent[name]):.0f} |")
    print(f"\nrecall@1 {100 * sum(counted) / len(counted):.1f}")


if __name__ == "__main__":
    typer.run(main)
