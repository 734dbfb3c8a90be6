"""Processor time and memory of one document over its length.

    python benchmarks/long_documents.py en_pel_mesh_sm CORPUS [--sizes 20000 200000 2000000]

A document is abstracts of CORPUS, one after the other. Each figure is from a process of its own,
which has linked a short document before. Parts: the whole pipeline over raw text; its linker alone over
the mentions of the corpus; ``kb_matcher`` alone. Exponent: 1 is a straight line, 2 a square.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import sys
from collections.abc import Callable
from functools import partial

import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_pel.documents import Document, open_documents
from spacy_pel.documents.docs import make_doc
from spacy_pel.evaluation.markdown_table import markdown_table
from spacy_pel.jobs.link_docs import Linking
from spacy_pel.pipeline.pipelines import linker_of

PARTS = ("raw text", "given mentions", "kb_matcher")


def joined(corpus: str, size: int, with_mentions: bool) -> Document:
    """Documents of the corpus as one of about so many characters."""
    texts, mentions, length, reached = [], [], 0, 0
    for raw in open_documents(corpus):
        document = raw.document()
        texts.append(document.text)
        for mention in sorted(document.mentions or ()):
            if mention.start + length >= reached:  # others overlap with the one before
                reached = mention.end + length
                mentions.append(mention._replace(start=mention.start + length, end=reached))
        length += len(document.text) + 1
        if length >= size:
            break
    else:
        raise SystemExit(f"{corpus} has {length:,} characters, not {size:,}")
    return Document("\n".join(texts), mentions=tuple(mentions) if with_mentions else None)


def pipeline_of(name: str, part: str) -> Language:
    """The pipeline of a part."""
    nlp = spacy.load(name)
    if part != "kb_matcher":
        return nlp
    blank = spacy.blank("en")
    blank.add_pipe("kb_matcher", config={"kb": str(linker_of(nlp, "proxy_linker").kb.path)})
    return blank


def linked(nlp: Language, document: Document, part: str) -> Doc:
    """The document after the pipeline."""
    doc = make_doc(nlp, document, None)
    return nlp(doc) if part == "kb_matcher" else next(iter(Linking(nlp).docs([doc])))


def cost(name: str, corpus: str, part: str, size: int) -> tuple[float, float, int]:
    """Seconds of the processor, MB beyond those of a short document, and mentions."""
    nlp = pipeline_of(name, part)
    given = part == "given mentions"
    linked(nlp, joined(corpus, 2000, given), part)
    document = joined(corpus, size, given)
    before = resource.getrusage(resource.RUSAGE_SELF)
    doc = linked(nlp, document, part)
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, (after.ru_maxrss - before.ru_maxrss) / 1024, len(doc.ents)


def in_a_process(work: Callable[[], object]) -> list:
    """What ``work`` returns in a process of its own."""
    begin, end = os.pipe()
    if child := os.fork():
        os.close(end)
        with open(begin) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        return json.loads(text) if text else sys.exit("A process failed.")
    try:
        os.write(end, json.dumps(work()).encode())
    finally:
        os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pipeline")
    parser.add_argument("corpus")
    parser.add_argument("--sizes", type=int, nargs="+", default=[20_000, 200_000, 2_000_000])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    given = parser.parse_args()
    rows = []
    for part in given.parts:
        costs = [
            in_a_process(partial(cost, given.pipeline, given.corpus, part, size))
            for size in given.sizes
        ]
        for i, (size, (seconds, megabytes, mentions)) in enumerate(zip(given.sizes, costs)):
            growth = (
                "" if not i else f"{exponent(given.sizes[i - 1 : i + 1], costs[i - 1 : i + 1]):.2f}"
            )
            row = (
                part,
                f"{size:,}",
                f"{seconds:.2f}",
                growth,
                f"{megabytes:,.0f}",
                f"{mentions:,}",
            )
            rows.append(row)
            print(*row, sep="\t", flush=True)
    header = ("part", "characters", "processor, s", "exponent", "memory, MB", "mentions")
    print(markdown_table(header, rows))


def exponent(sizes: list[int], costs: list[list]) -> float:
    """The power of the size with which the seconds grow."""
    return math.log(costs[1][0] / costs[0][0]) / math.log(sizes[1] / sizes[0])


if __name__ == "__main__":
    main()
