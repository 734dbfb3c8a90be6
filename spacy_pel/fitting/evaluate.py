"""Linking metrics of a pipeline on gold mentions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy.language import Language
from spacy.training import Example

from ..jobs.linker_state import linker_state
from ..pipeline.pipelines import linker_of
from .gold_examples import Bars, check_ids, gold_examples, link_examples
from .surface_forms import surface_scores

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

# What is kept of the scores. The others are the same numbers under names for training configs.
KEPT = (
    *("mentions", "in_kb", "seen", "unseen", "recall@", "mrr", "nil", "concepts"),
    *("expected_calibration_error", "nel_micro_"),
)


def evaluate(
    nlp: Language,
    corpus: Sequence[str | Path],
    *,
    component: str = "proxy_linker",
    limit: int = 0,
    progress: Bars | None = None,
) -> dict[str, Any]:
    """Link the gold mentions of corpora, and score the 64 best candidates of each.

    Only the linker runs, and the components that it listens to.

    Args:
        nlp: A pipeline with a trained linker.
        corpus: Names of corpora, as ``corpora.document_corpus.open_corpus`` takes them.
        component: The name of the linker in the pipeline.
        limit: The number of documents taken of each corpus file. 0 takes all.
        progress: See ``Bars`` of ``gold_examples``.

    Returns:
        The metrics of ``pipeline.scorer.linking_scores``, ready for JSON. Also: ``surface_forms``, by
        ids and by names (``surface_forms.surface_scores``); ``mentions_per_second`` of linking alone; ``reranked``, the number of candidates that are
        reranked; ``kb``, ``kb_entities``, ``corpus``, ``limit`` and ``spans_key``; and ``linker``,
        which identifies the linker that was evaluated (see ``linker_state``).

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
    metrics = metrics_of(linker, examples, seconds, corpus, limit)
    return {**metrics, "linker": linker_state(nlp, component)}


def metrics_of(
    linker: ProxyLinker,
    examples: Sequence[Example],
    seconds: float,
    corpus: Sequence[str | Path],
    limit: int,
) -> dict[str, Any]:
    """Score examples that are linked already.

    Args:
        linker: The linker that has linked them.
        examples: The linked examples.
        seconds: How long linking took.
        corpus: The names of the corpora that they are from.
        limit: The number of documents taken of each corpus file; 0 for all.

    Returns:
        What ``evaluate`` returns, without ``linker``.
    """
    scores = linker.score(examples)
    return {
        **{name: value for name, value in scores.items() if name.startswith(KEPT)},
        "surface_forms": surface_scores(examples, linker.kb, linker.spans_key),
        "mentions_per_second": scores["mentions"] / seconds,
        "reranked": linker.reranked,
        "kb": str(linker.kb.path),
        "kb_entities": len(linker.kb),
        "corpus": [str(path) for path in corpus],
        "limit": limit,
        "spans_key": linker.spans_key,
    }
