"""Link the gold mentions of corpora, to measure a linker or to calibrate it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..batch.document_blocks import NoBar
from ..batch.fingerprints import linker_state
from ..batch.joint_linking import with_settings
from ..corpora.document_corpus import open_corpus
from ..errors import PelError
from ..pipeline.pipelines import linker_of, read_by_upstream
from ..spans import gold_ids, mention_spans

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

# Makes a progress bar like ``tqdm`` from ``desc`` and ``total``, the number of documents.
Bars = Callable[..., Any]

# The scores to keep. The others repeat them under the names of training configs.
KEPT = (
    *("mentions", "in_kb", "seen", "unseen", "recall@", "mrr", "nil", "concepts"),
    *("expected_calibration_error", "nel_micro_"),
)
_BATCH_SIZE = 128  # docs that are linked together
_N_CANDIDATES = 64  # of each mention at least, for recall@64
_FIELDS = {"mentions", "recall@1", "mrr"}


def evaluate(
    nlp: Language,
    corpus: Sequence[str | Path],
    *,
    limit: int = 0,
    progress: Bars = NoBar,
) -> dict[str, Any]:
    """Link the gold mentions of corpora, and score the 64 best candidates of each.

    Args:
        nlp: A pipeline with a trained linker.
        corpus: Names of corpora, as for ``corpora.document_corpus.open_corpus``.
        limit: The maximum number of documents of each corpus file; 0: all.
        progress: See ``Bars``.

    Returns:
        The metrics of ``pipeline.scorer.linking_scores``, ready for JSON. Also:
        ``mentions_per_second`` of linking alone; ``reranked``, the number of candidates
        that are reranked; ``kb``, ``kb_entities``,
        ``corpus``, ``limit`` and ``spans_key``; and ``linker``, which identifies the linker that
        was evaluated (see ``linker_state``).

    Raises:
        PelError: There is no linker or no mention, the KB has none of the gold ids, or it has no
            vectors of the linker's encoder.
    """
    linker = linker_of(nlp)
    examples = gold_examples(nlp, linker, corpus, limit)
    check_ids(examples, linker, corpus)
    start = time.perf_counter()
    link_examples(nlp, linker, examples, progress)
    seconds = time.perf_counter() - start
    scores = linker.score(examples)
    return {
        **{name: value for name, value in scores.items() if name.startswith(KEPT)},
        "mentions_per_second": scores["mentions"] / seconds,
        "reranked": linker.reranked,
        "kb": str(linker.kb.path),
        "kb_entities": len(linker.kb),
        "corpus": [str(path) for path in corpus],
        "limit": limit,
        "spans_key": linker.spans_key,
        "linker": linker_state(nlp),
    }


def read_metrics(path: Path) -> dict[str, Any]:
    """Return the metrics in a file of ``pel evaluate``, or raise a PelError if it has none."""
    remedy = "give a file of python -m spacy pel evaluate"
    try:
        metrics = json.loads(path.read_text("utf8"))
    except ValueError as error:
        raise PelError(f"{path}: is not JSON ({error})", remedy) from error
    if not isinstance(metrics, dict) or not metrics.keys() >= _FIELDS:
        raise PelError(f"{path}: has no metrics of linking", remedy)
    return metrics


def gold_examples(
    nlp: Language, linker: ProxyLinker, corpus: Sequence[str | Path], limit: int = 0
) -> list[Example]:
    """Return the documents of corpora, with gold mentions where the linker reads mentions.

    Args:
        nlp: The pipeline.
        linker: Its linker.
        corpus: Names of corpora, as for ``open_corpus``.
        limit: The maximum number of documents of each file; 0: all.

    Raises:
        PelError: There is no mention, or the KB has no vectors of the linker's encoder.
    """
    linker.finish_training()
    linker.check_kb()  # rejects a KB of another encoder before the corpus is read
    examples = [
        example
        for name in corpus
        for example in open_corpus(name, limit=limit, spans_key=linker.spans_key)(nlp)
    ]
    if not any(mention_spans(example.reference, linker.spans_key) for example in examples):
        raise PelError(
            f"{', '.join(map(str, corpus))}: no mentions", "give a corpus with documents"
        )
    return examples


def check_ids(
    examples: Sequence[Example], linker: ProxyLinker, corpus: Sequence[str | Path]
) -> bool:
    """Return whether any gold mention has an id. PelError if the KB has none of the ids."""
    spans = [span for e in examples for span in mention_spans(e.reference, linker.spans_key)]
    ids = {id for span in spans for id in gold_ids(span)}
    if ids and not any(id in linker.kb for id in ids):
        some = f"none of the {len(ids):,} gold ids, such as {min(ids)}, is in {linker.kb.path}"
        remedy = "give a corpus and a KB that use the same identifiers"
        raise PelError(f"{', '.join(map(str, corpus))}: {some}", remedy)
    return bool(ids)


def link_examples(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    progress: Bars = NoBar,
) -> None:
    """Link the gold mentions of examples in place, each to at least 64 candidates.

    Only the linker and the components that it listens to run.
    """
    candidates = max(linker.search.candidates, _N_CANDIDATES)
    with (
        with_settings(linker.search, candidates=candidates),
        with_settings(linker.output, overwrite=True),  # an earlier call may have linked them
    ):
        for batch in read_batches(nlp, linker, examples, progress):
            linker.set_annotations(batch, linker.predict(batch))


def read_batches(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    progress: Bars = NoBar,
) -> Iterator[list[Doc]]:
    """Yield batches of docs, read by the components that a linker listens to.

    The vectors of these components are dropped after each batch: those of a corpus take half a gigabyte.
    """
    docs = read_by_upstream(nlp, linker.name, (example.predicted for example in examples))
    with progress(desc="Linking", total=len(examples)) as bar:
        for batch in linker.runtime.batches(docs, _BATCH_SIZE):
            yield batch
            for doc in batch:
                doc.tensor = np.zeros(0, dtype=np.float32)
                if doc.has_extension("trf_data"):
                    doc._.trf_data = None
                bar.update()
