"""Gold mentions of corpora, linked: what is evaluated, and calibrated on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..corpora.document_corpus import open_corpus
from ..errors import PelError
from ..pipeline.pipelines import upstream_of
from ..spans import gold_ids, mention_spans

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker


def gold_examples(
    nlp: Language, linker: ProxyLinker, corpus: Sequence[Path], limit: int = 0
) -> list[Example]:
    """The documents of corpora, with their mentions where the linker is set to have them.

    corpus: names as ``open_corpus`` takes them. limit: documents taken of each file or world; 0
    takes all. Raises PelError if there is no mention, or the KB has no vectors of the linker's
    encoder.
    """
    linker.finish_training()
    linker.index  # refuses a KB that does not fit before the corpus is read
    examples = [
        example
        for name in corpus
        for example in open_corpus(name, limit=limit, spans_key=linker.spans_key)(nlp)
    ]
    if not any(mention_spans(example.reference, linker.spans_key) for example in examples):
        raise PelError(f"{', '.join(map(str, corpus))}: no mentions", "give a corpus that has some")
    return examples


def check_ids(examples: Sequence[Example], linker: ProxyLinker, corpus: Sequence[Path]) -> bool:
    """Whether the mentions have ids at all; PelError if they do, and the KB has none of them."""
    spans = [span for e in examples for span in mention_spans(e.reference, linker.spans_key)]
    ids = {id for span in spans for id in gold_ids(span)}
    if ids and not any(id in linker.kb for id in ids):
        raise PelError(
            f"{', '.join(map(str, corpus))}: none of the {len(ids):,} gold ids, such as {min(ids)}, "
            f"is in {linker.kb.path}",
            "give a corpus and a KB that use the same identifiers",
        )
    return bool(ids)


def docs_to_link(nlp: Language, linker: ProxyLinker, examples: Iterable[Example]) -> Iterator[Doc]:
    """The examples' docs, read by the components that the linker listens to, and by no others."""
    docs = (example.predicted for example in examples)
    for name in upstream_of(nlp, linker.name):
        docs = nlp.get_pipe(name).pipe(docs)
    return docs


def link_examples(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    progress: Callable[[], object] | None = None,
) -> None:
    """Link the mentions, each to 64 candidates or more. progress: called after each document."""
    with enough_candidates(linker):
        for doc in linker.pipe(docs_to_link(nlp, linker, examples)):
            forget_reading(doc)
            if progress:
                progress()


@contextmanager
def enough_candidates(linker: ProxyLinker) -> Iterator[None]:
    """Have the linker give 64 candidates or more, for the time being."""
    from ..linking.candidate_search import SEARCH_DEPTH  # here: torch takes seconds

    kept = linker.candidates
    linker.candidates = max(kept, SEARCH_DEPTH)
    try:
        yield
    finally:
        linker.candidates = kept


def forget_reading(doc: Doc) -> None:
    """Forget what other components have read of a document: of a corpus that is half a gigabyte."""
    doc.tensor = np.zeros(0, dtype=np.float32)
    if doc.has_extension("trf_data"):
        doc._.trf_data = None
