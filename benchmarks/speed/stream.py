"""Tell whether a long stream of documents is linked in constant memory and at full speed.

    python benchmarks/speed/stream.py PIPELINE --kb KB --corpus CORPUS --documents 20000 --runtime onnx-int8

The documents are made of sentences drawn at random from the corpus, with their gold mentions. Prints
the speed of the encoder and the search alone, without spaCy, and that of two processes; then speed
and memory during the stream.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import spacy
import typer
from protocol import Document
from spacy.language import Language
from spacy.tokens import Doc

from docs import doc_of
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.spans import mention_spans

SENTENCES = 10  # of an abstract


def main(
    pipeline: str,
    kb: Annotated[str, typer.Option(help="An embedded knowledge base")],
    corpus: Annotated[Path, typer.Option(help="PubTator file that sentences are drawn from")],
    documents: int = 20_000,
    compared: Annotated[
        int, typer.Option(help="Documents of the comparisons before the stream")
    ] = 1000,
    every: Annotated[int, typer.Option(help="Documents between two printed lines")] = 1000,
    runtime: str = "torch",
) -> None:
    """Link a stream of documents, and print speed and memory."""
    settings = {"components": {"proxy_linker": {"runtime": runtime}}}
    nlp = spacy.load(pipeline, config=settings)
    nlp.get_pipe("proxy_linker").set_kb(kb)
    sentences = sentences_of(corpus)
    first = [doc.to_bytes() for doc in abstracts(nlp, sentences, compared)]
    bare = bare_speed(nlp, loaded(nlp, first))
    one, ids = piped(nlp, loaded(nlp, first), 1)
    two, again = piped(nlp, loaded(nlp, first), 2)
    print(
        f"{compared} documents: encoder and search alone {bare:.0f} mentions/s, nlp.pipe {one:.0f}"
    )
    print(
        f"({one / bare:.0%}), with n_process=2 {two:.0f}; the best ids are the same: {ids == again}\n"
    )
    print("| documents | mentions/s | memory |\n|---:|---:|---:|")
    began, mentions = time.perf_counter(), 0
    for number, doc in enumerate(nlp.pipe(abstracts(nlp, sentences, documents)), start=1):
        mentions += len(doc.ents)
        if number % every == 0:
            seconds = time.perf_counter() - began
            print(f"| {number:,} | {mentions / seconds:.0f} | {memory()} MB |", flush=True)
            began, mentions = time.perf_counter(), 0


def sentences_of(corpus: Path) -> list[Document]:
    """The sentences of a corpus that have mentions, each as a document."""
    sentences = []
    for example in open_corpus(corpus)(spacy.blank("en")):
        text, spans = example.text, mention_spans(example.reference, None)
        start = 0
        while start < len(text):
            end = text.find(". ", start) + 1 or len(text)
            while any(span.start_char < end < span.end_char for span in spans):
                end = text.find(". ", end) + 1 or len(text)
            inside = [
                [span.start_char - start, span.end_char - start]
                for span in spans
                if start <= span.start_char and span.end_char <= end
            ]
            if inside:
                sentences.append(Document(text[start:end], inside, []))
            start = end + 1
    return sentences


def abstracts(nlp: Language, sentences: list[Document], n: int) -> Iterator[Doc]:
    """The same n abstracts in every call."""
    random = np.random.default_rng(0)
    for _ in range(n):
        text, mentions = "", []
        for i in random.integers(len(sentences), size=SENTENCES):
            mentions += [[a + len(text), b + len(text)] for a, b in sentences[i].mentions]
            text += sentences[i].text + " "
        yield doc_of(nlp.vocab, Document(text, mentions, []))


def loaded(nlp: Language, docs: list[bytes]) -> list[Doc]:
    return [Doc(nlp.vocab).from_bytes(doc) for doc in docs]


def bare_speed(nlp: Language, docs: list[Doc]) -> float:
    """The mentions a second of tokenising, encoding and searching, without writing on documents."""
    began = time.perf_counter()
    linked = nlp.get_pipe("proxy_linker").predict(docs)
    return len(linked.links.nil) / (time.perf_counter() - began)


def piped(nlp: Language, docs: list[Doc], n_process: int) -> tuple[float, list[str]]:
    """The mentions a second of ``nlp.pipe`` with the start of its processes, and the best ids."""
    began = time.perf_counter()
    ids = [span.kb_id_ for doc in nlp.pipe(docs, n_process=n_process) for span in doc.ents]
    return len(ids) / (time.perf_counter() - began), ids


def memory() -> int:
    """The memory of this process in MB, without what is mapped from files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("RssAnon"))
    return int(kilobytes) >> 10


if __name__ == "__main__":
    typer.run(main)
