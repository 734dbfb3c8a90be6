"""What one document costs, in processor time and in arithmetic, and what many cores could do.

    python benchmarks/limits.py en_pel_mesh_sm CORPUS [--documents 300] [--processes 2]

Texts of CORPUS are linked as raw text by one thread; times are of the processor. Then the same is done
by --processes worker processes: what the parent computes meanwhile is the serial part of
``pel link --n-process``. At the end is the cost of PubMed, at a price that --price gives.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from unittest.mock import patch

import spacy
import torch
from spacy.language import Language

from spacy_pel.architectures import encoder_of
from spacy_pel.documents import open_documents
from spacy_pel.evaluation.markdown_table import markdown_table
from spacy_pel.jobs.link_docs import link_documents
from spacy_pel.kb import KnowledgeBase
from spacy_pel.linking.retriever import Retriever
from spacy_pel.pipeline.pipelines import linker_of
from spacy_pel.pipeline.proxy_linker import ProxyLinker

PUBMED = 38_000_000  # abstracts
CORES = (1, 2, 4, 16, 64, 256)
# From a name to a method in which its time is spent. A later one is called in an earlier one.
STEPS = {
    "linker": (ProxyLinker, "predict"),
    "encoder": (Retriever, "mention_vectors"),
    "search": (KnowledgeBase, "search"),
    "answers": (ProxyLinker, "set_annotations"),
}


@contextmanager
def timed_steps() -> Iterator[Counter[str]]:
    """The seconds of the processor in each step, and the word pieces and mentions that are read."""
    spent: Counter[str] = Counter()

    def timed(name: str, method: Callable) -> Callable:
        def call(*arguments, **settings):
            start = time.process_time()
            try:
                return method(*arguments, **settings)
            finally:
                spent[name] += time.process_time() - start

        return call

    def counted(retriever: Retriever, mentions, inputs=Retriever.mention_inputs):
        read = inputs(retriever, mentions)
        spent["word pieces"] += int(read.lengths().sum())
        spent["mentions"] += len(mentions)
        return read

    patches = [
        patch.object(owner, method, timed(name, getattr(owner, method)))
        for name, (owner, method) in STEPS.items()
    ]
    patches.append(patch.object(Retriever, "mention_inputs", counted))
    for each in patches:
        each.start()
    try:
        yield spent
    finally:
        patch.stopall()


def linked(nlp: Language, texts: list[str], processes: int = 1) -> None:
    """Link texts as ``pel link`` does, and make JSON of them."""
    docs = (nlp.make_doc(text) for text in texts)
    for record in link_documents(nlp, docs, n_process=processes):
        json.dumps(record)


def finding_seconds(nlp: Language, texts: list[str]) -> float:
    """The seconds of the processor of the components that find mentions."""
    docs = [nlp.make_doc(text) for text in texts]
    start = time.process_time()
    for _ in nlp.pipe(docs, disable=["proxy_linker"], batch_size=128):
        pass
    return time.process_time() - start


def arithmetic(nlp: Language, texts: list[str], spent: Counter[str]) -> list[tuple[str, str]]:
    """What a document is, in numbers."""
    linker, n = linker_of(nlp), len(texts)
    pieces, mentions = spent["word pieces"] / n, spent["mentions"] / n
    transformer = encoder_of(linker.retriever.mention_tower).transformer
    weights = sum(p.numel() for p in transformer.encoder.parameters())
    settings = transformer.config
    layers, width = settings.num_hidden_layers, settings.hidden_size
    flop = pieces * (2 * weights + 4 * layers * pieces * width)  # each piece attends to all
    index = linker.kb.manifest["segments"][0]["vectors"]["index"]
    scanned = (linker.kb.path / index["file"]).stat().st_size if index else 0
    return [
        ("characters", f"{sum(map(len, texts)) / n:,.0f}"),
        ("word pieces", f"{pieces:,.0f}"),
        ("FLOP of the encoder, million", f"{flop / 1e6:,.0f}"),
        ("mentions, a search each at most", f"{mentions:.1f}"),
        ("bytes of codes that these read, MB", f"{mentions * scanned / 1e6:,.0f}"),
        ("names and ids looked up, at most", f"{mentions * linker.candidates:,.0f}"),
    ]


def processor(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pipeline")
    parser.add_argument("corpus")
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--price", type=float, default=0.05, help="of a core hour, in dollars")
    given = parser.parse_args()
    torch.set_num_threads(1)
    nlp = spacy.load(given.pipeline)
    texts = [raw.document().text for raw in islice(open_documents(given.corpus), given.documents)]
    linked(nlp, texts[:20])
    with timed_steps() as spent:
        start = time.process_time()
        linked(nlp, texts)
        total = time.process_time() - start
    found = finding_seconds(nlp, texts)
    print(markdown_table(("a document", ""), arithmetic(nlp, texts, spent)), end="\n\n")
    n = len(texts)
    inner = spent["linker"] - spent["encoder"] - spent["search"]
    rest = total - found - spent["linker"] - spent["answers"]
    shares = {
        "mentions found": found,
        "encoder": spent["encoder"],
        "search": spent["search"],
        "the rest of the linker": inner + spent["answers"],
        "tokens, batches, JSON": rest,
        "all": total,
    }
    rows = [(name, f"{1000 * s / n:.1f}", f"{s / total:.0%}") for name, s in shares.items()]
    print(markdown_table(("step", "ms of the processor", "share"), rows), end="\n\n")

    own, workers = processor(resource.RUSAGE_SELF), processor(resource.RUSAGE_CHILDREN)
    linked(nlp, texts, given.processes)
    own = (processor(resource.RUSAGE_SELF) - own) / n
    workers = (processor(resource.RUSAGE_CHILDREN) - workers) / n
    print(
        f"{given.processes} workers: {1000 * workers:.1f} ms a document in them, "
        f"{1000 * own:.1f} ms in the parent, which alone reads and writes: at most "
        f"{1 / own:,.0f} documents a second, with {workers / own:.0f} workers.\n"
    )
    alone = total / n
    rows = [
        (
            str(cores),
            f"{cores / alone:,.0f}",
            f"{min(cores / (own + workers), 1 / own):,.0f}",
            f"{PUBMED * alone / cores / 3600:,.0f}",
        )
        for cores in CORES
    ]
    header = ("cores", "documents/s, each reads its files", "one parent", "hours for PubMed")
    print(markdown_table(header, rows), end="\n\n")
    hours = PUBMED * alone / 3600
    print(f"PubMed: {hours:,.0f} core hours, {hours * given.price:,.0f} $ at {given.price} $ each.")


if __name__ == "__main__":
    main()
