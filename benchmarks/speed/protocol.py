"""Measure a linker. This module needs only spaCy, so that each linker may run in another Python."""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

# A worker imports this first, so that the time of a linker's own imports is measured.
START = time.perf_counter()
WARM_UP = 50  # documents
PASSES = 3  # over all documents: the quickest counts, as others of the machine disturb the rest
LATENCY = 100  # documents that are linked one by one


class Document(NamedTuple):
    """A document with gold mentions.

    Attributes:
        text: Its text.
        mentions: The offsets of each mention, [start, end].
        golds: For each mention the right ids that the KB has.
    """

    text: str
    mentions: list[list[int]]
    golds: list[list[str]]


# Gives, for documents, the ids of each of their mentions in turn, best first.
Link = Callable[[list[Document]], list[list[str]]]


def doc_of(vocab: Vocab, document: Document) -> Doc:
    """Make a Doc; its words are separated by blanks, and by the ends of mentions."""
    from spacy.tokens import Doc, Span  # here, as the clock has started

    text = document.text
    cuts = {0, len(text), *(at for mention in document.mentions for at in mention)}
    cuts.update(at for match in re.finditer(r"\s", text) for at in match.span())
    places = sorted(cuts)
    words = [text[a:b] for a, b in zip(places, places[1:])]
    doc = Doc(vocab, words=words, spaces=[False] * len(words))
    first = {at: i for i, at in enumerate(places)}
    doc.ents = [Span(doc, first[a], first[b], label="ENTITY") for a, b in document.mentions]
    return doc


def report(documents_path: str, link: Link) -> None:
    """Measure a linker, and print one line of JSON."""
    documents = [Document(**d) for d in json.loads(Path(documents_path).read_text("utf8"))]
    link(documents[:1])
    start = time.perf_counter() - START
    link(documents[:WARM_UP])
    seconds, cpu = min(_spent(link, documents) for _ in range(PASSES))
    ranked = link(documents)
    latencies = []
    for document in documents[:LATENCY]:
        began = time.perf_counter()
        link([document])
        latencies.append(1000 * (time.perf_counter() - began))
    golds = [set(gold) for document in documents for gold in document.golds]
    in_kb = [(ids, gold) for ids, gold in zip(ranked, golds, strict=True) if gold]
    figures = {
        "documents": len(documents),
        "mentions": len(golds),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "mentions_per_second": len(golds) / seconds,
        "p50_ms": _quantile(latencies, 0.5),
        "p95_ms": _quantile(latencies, 0.95),
        "start_s": start,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "recall@1": _recall(in_kb, 1),
        "recall@64": _recall(in_kb, 64),
    }
    json.dump({**figures, "best": [ids[:1] for ids in ranked]}, sys.stdout)


def _spent(link: Link, documents: list[Document]) -> tuple[float, float]:
    """Return the wall-clock seconds and the CPU seconds of a run."""
    began, cpu = time.perf_counter(), time.process_time()
    link(documents)
    return time.perf_counter() - began, time.process_time() - cpu


def _recall(ranked: list[tuple[list[str], set[str]]], k: int) -> float:
    """Return the percentage of mentions with a correct id among the first k."""
    return 100 * sum(not gold.isdisjoint(ids[:k]) for ids, gold in ranked) / len(ranked)


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[round(share * (len(values) - 1))]
