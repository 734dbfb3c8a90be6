"""Gold mentions of corpora, linked: what a linker is evaluated and calibrated on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..corpora.document_corpus import open_corpus
from ..errors import PelError
from ..jobs.joint_linking import with_settings
from ..pipeline.pipelines import read_by_upstream
from ..spans import gold_ids, mention_spans

if TYPE_CHECKING:
    from ..pipeline.annotations import LinkedSpans
    from ..pipeline.proxy_linker import ProxyLinker

# Makes a bar, as ``tqdm`` does, from ``desc`` and ``total``, the number of documents.
Bars = Callable[..., Any]


def gold_examples(
    nlp: Language, linker: ProxyLinker, corpus: Sequence[str | Path], limit: int = 0
) -> list[Example]:
    """The documents of corpora, with their gold mentions where the linker looks for mentions.

    Args:
        nlp: The pipeline, whose tokenizer is used.
        linker: The linker of the pipeline.
        corpus: Names of corpora, as ``open_corpus`` takes them.
        limit: The number of documents taken of each file or world. 0 takes all.

    Raises:
        PelError: There is no mention, or the KB has no vectors of the linker's encoder.
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


def check_ids(
    examples: Sequence[Example], linker: ProxyLinker, corpus: Sequence[str | Path]
) -> bool:
    """Whether any gold mention has an id, that is, is not NIL.

    Raises:
        PelError: There are ids, and the KB has none of them.
    """
    spans = [span for e in examples for span in mention_spans(e.reference, linker.spans_key)]
    ids = {id for span in spans for id in gold_ids(span)}
    if ids and not any(id in linker.kb for id in ids):
        raise PelError(
            f"{', '.join(map(str, corpus))}: none of the {len(ids):,} gold ids, such as {min(ids)}, "
            f"is in {linker.kb.path}",
            "give a corpus and a KB that use the same identifiers",
        )
    return bool(ids)


def link_examples(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    progress: Bars | None = None,
) -> None:
    """Link the gold mentions of the examples, in place, each to 64 candidates or more."""
    with _enough_candidates(linker), _bar(progress, "Linking", examples) as bar:
        for doc in linker.pipe(_docs_to_link(nlp, linker, examples)):
            _forget_shared_states(doc)
            if bar:
                bar.update()


def linked_one_by_one(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    doing: str,
    progress: Bars | None = None,
) -> Iterator[tuple[Example, LinkedSpans | None]]:
    """Each example with what linking says of its mentions, which is not written on them.

    ``doing`` is shown beside the bar.
    """
    with _bar(progress, doing, examples) as bar:
        for example, doc in zip(examples, _docs_to_link(nlp, linker, examples)):
            with _enough_candidates(linker):
                linked = linker.predict([doc])
            _forget_shared_states(doc)
            yield example, linked
            if bar:
                bar.update()


def _docs_to_link(nlp: Language, linker: ProxyLinker, examples: Iterable[Example]) -> Iterator[Doc]:
    """The examples' docs, run only through the components that the linker listens to."""
    return read_by_upstream(nlp, linker.name, (example.predicted for example in examples))


def _bar(progress: Bars | None, doing: str, examples: Sequence[Example]) -> Any:
    return progress(desc=doing, total=len(examples)) if progress else nullcontext()


def _enough_candidates(linker: ProxyLinker) -> AbstractContextManager[None]:
    """Within the block, the linker gives 64 candidates or more."""
    from ..linking.link import SEARCH_DEPTH  # here: torch takes seconds

    return with_settings(linker, candidates=max(linker.candidates, SEARCH_DEPTH))


def _forget_shared_states(doc: Doc) -> None:
    """Drop the vectors that other components left on a doc: a corpus has half a gigabyte."""
    doc.tensor = np.zeros(0, dtype=np.float32)
    if doc.has_extension("trf_data"):
        doc._.trf_data = None
