"""The time of each part of linking, and the share of the processor's speed that it reaches.

    OMP_NUM_THREADS=1 python benchmarks/speed/breakdown.py PIPELINE --kb KB --documents OUT/documents.json

Times are processor time in ms a mention, on one thread, the best of three. ``run.py`` writes OUT.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import spacy
import torch
import typer
from protocol import Document

from docs import doc_of
from spacy_pel.architectures import encoder_of
from spacy_pel.linking.retriever import Retriever
from spacy_pel.models.text_encoder import TextEncoder
from spacy_pel.models.window_encoder import pooled_tokens
from spacy_pel.pipeline.doc_mentions import mentions_in_context
from spacy_pel.reading.document_windows import Window, WindowInputs
from spacy_pel.reading.mention import MentionInContext
from spacy_pel.reading.text_inputs import TextInputs, TokenIds
from spacy_pel.spans import mention_spans

ROUNDS = 3


def main(
    pipeline: str,
    kb: Annotated[str, typer.Option(help="An embedded knowledge base")],
    documents: Annotated[Path, typer.Option(help="Written by run.py")],
    runtime: str = "torch",
) -> None:
    """Print the parts of linking."""
    settings = {"components": {"proxy_linker": {"runtime": runtime}}}
    nlp = spacy.load(pipeline, config=settings)
    linker = nlp.get_pipe("proxy_linker")
    linker.set_kb(kb)
    batch = [Document(**d) for d in json.loads(documents.read_text("utf8"))]
    docs = [doc_of(nlp.vocab, document) for document in batch]
    retriever, base = linker.retriever, linker.kb

    def read() -> list[MentionInContext]:
        resolve = linker.resolve_abbreviations
        return [m for d in docs for m in mentions_in_context(d, mention_spans(d), resolve)]

    mentions = read()
    inputs = retriever.mention_inputs(mentions)
    vectors = retriever.mention_tower.predict(inputs)
    linked = linker.predict(docs)

    def encode() -> None:
        with linker.runtime.computes(linker.encoders.berts(linker.reranked > 0)):
            retriever.mention_tower.predict(inputs)

    parts = {
        "mentions and acronyms": read,
        "tokenising": lambda: retriever.mention_inputs(mentions),
        "encoding": encode,
        "search": lambda: base.search(vectors, linker.candidates),
        "answers": lambda: linker.set_annotations(docs, linked),
    }
    seconds = {part: best_of(work) for part, work in parts.items()}
    whole = best_of(lambda: linker.set_annotations(docs, linker.predict(docs)))
    n_rows = sum(len(segment.index.row_entities) for segment in base.segments)
    flops = {
        "encoding": encoder_flops(retriever, inputs),
        "search": 2.0 * n_rows * base.dim * len(vectors),  # if it looks at every row
    }
    peak = matrix_speed()
    print(
        f"{len(docs)} documents, {len(mentions)} mentions, {len(inputs.lengths())} inputs of "
        f"{inputs.lengths().mean():.0f} tokens, {n_rows} rows; a product of large "
        f"matrices does {peak / 1e9:.0f} GFLOP/s\n"
    )
    print("| | ms a mention | share | GFLOP/s | of the limit |\n|---|---:|---:|---:|---:|")
    for part, spent in seconds.items():
        speed = f"{flops[part] / spent / 1e9:.0f}" if part in flops else ""
        limit = f"{flops[part] / spent / peak:.0%}" if part in flops else ""
        print(
            f"| {part} | {1000 * spent / len(mentions):.2f} | {spent / whole:.0%} | {speed} | {limit} |"
        )
    print(f"| whole | {1000 * whole / len(mentions):.2f} | | | |")


def best_of(work: Callable[[], object]) -> float:
    """The least processor time of three runs, in seconds."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def encoder_flops(retriever: Retriever, inputs: TextInputs | WindowInputs) -> float:
    """The floating-point operations of a BERT's matrix products over these inputs, without padding.

    The last layer computes keys and values for all tokens, and the rest for the pooled ones.
    """
    encoder = encoder_of(retriever.mention_tower)
    config = encoder.transformer.config
    width, inner = config.hidden_size, config.intermediate_size
    each = inputs.windows if isinstance(inputs, WindowInputs) else inputs.tokens
    tokens = np.array(inputs.lengths(), dtype=float)
    pooled = np.array([n_pooled(encoder, x) for x in each], dtype=float)

    def layer(n: np.ndarray) -> np.ndarray:
        read = 4 * tokens * width**2 + 4 * tokens * n * width
        return read + 4 * n * (width**2 + width * inner)

    return float(((config.num_hidden_layers - 1) * layer(tokens) + layer(pooled)).sum())


def n_pooled(encoder: TextEncoder, tokens: TokenIds | Window) -> int:
    """The number of tokens of an input whose states are pooled."""
    if isinstance(tokens, Window):
        return len(np.unique(pooled_tokens(torch.tensor(tokens.spans), encoder.mention_pooling)[0]))
    whole = encoder.pooling != "focus" or tokens.start == tokens.end
    return len(tokens.ids) if whole else tokens.end - tokens.start


def matrix_speed() -> float:
    """Floating-point operations a second of a product of two large matrices."""
    a = np.random.default_rng(0).standard_normal((2048, 2048)).astype(np.float32)
    return 2 * 2048.0**3 / best_of(lambda: a @ a)


if __name__ == "__main__":
    typer.run(main)
