"""Linking metrics of a pipeline on gold mentions."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spacy.language import Language

from ..errors import PelError
from ..jobs.fingerprints import linker_state
from ..pipeline.pipelines import linker_of
from .gold_examples import Bars, check_ids, gold_examples, link_examples

# What is kept of the scores. The others are the same numbers under names for training configs.
KEPT = (
    *("mentions", "in_kb", "seen", "unseen", "recall@", "mrr", "nil", "concepts"),
    *("expected_calibration_error", "nel_micro_"),
)
_FIELDS = {"mentions", "recall@1", "mrr"}


def evaluate(
    nlp: Language,
    corpus: Sequence[str | Path],
    *,
    component: str = "proxy_linker",
    limit: int = 0,
    progress: Bars | None = None,
) -> dict[str, Any]:
    """Link the gold mentions of corpora, and score the 64 best candidates of each.

    Args:
        nlp: A pipeline with a trained linker.
        corpus: Names of corpora, as ``corpora.document_corpus.open_corpus`` takes them.
        component: The name of the linker in the pipeline.
        limit: The number of documents taken of each corpus file. 0 takes all.
        progress: See ``Bars`` of ``gold_examples``.

    Returns:
        The metrics of ``pipeline.scorer.linking_scores``, ready for JSON. Also:
        ``mentions_per_second`` of linking alone; ``reranked``, the number of candidates that are reranked; ``kb``, ``kb_entities``,
        ``corpus``, ``limit`` and ``spans_key``; and ``linker``, which identifies the linker that
        was evaluated (see ``linker_state``).

    Raises:
        PelError: There is no linker or no mention, the KB has none of the gold ids, or it has no
            vectors of the linker's encoder.
    """
    linker = linker_of(nlp, component)
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
        "linker": linker_state(nlp, component),
    }


def read_metrics(path: Path) -> dict[str, Any]:
    """The metrics in a file of ``pel evaluate``; PelError if it holds none."""
    remedy = "give a file of python -m spacy pel evaluate"
    try:
        metrics = json.loads(path.read_text("utf8"))
    except ValueError as error:
        raise PelError(f"{path}: is not JSON ({error})", remedy) from error
    if not isinstance(metrics, dict) or not metrics.keys() >= _FIELDS:
        raise PelError(f"{path}: has no metrics of linking", remedy)
    return metrics
