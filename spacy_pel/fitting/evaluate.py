"""Linking metrics of a pipeline on gold mentions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.training import Example

from ..errors import PelError
from ..evaluation.linking_metrics import percent
from ..jobs.fingerprints import linker_state
from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.names import normalised
from ..pipeline.pipelines import linker_of
from ..spans import gold_ids, mention_spans
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
        The metrics of ``pipeline.scorer.linking_scores``, ready for JSON. Also: ``surface_forms``, by
        ids and by names (``surface_scores``); ``mentions_per_second`` of linking alone;
        ``reranked``, the number of candidates that are reranked; ``kb``, ``kb_entities``,
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
        "surface_forms": surface_scores(examples, linker.kb, linker.spans_key),
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


def surface_scores(
    examples: Iterable[Example], kb: KnowledgeBase, spans_key: str | None = None
) -> dict[str, Any]:
    """The accuracy of the best candidates of linked mentions, by ids and by names.

    Some papers count an answer as right if its *name* is also a name of the right entity (BioSyn,
    SapBERT; criticised by Zhang et al. 2022, section 4.5). A name that several entities share is
    then always right. Only mentions whose entity the KB has count. A mention is *ambiguous* if its
    words are a name of two or more entities of the KB.

    Returns:
        ``strict``: the share of mentions whose best candidate is the right entity. ``lenient``: the
        share whose best candidate has a name in common with the right entity; names are compared
        without case, blanks and punctuation. ``ambiguous``: the share of ambiguous mentions.
        ``strict_ambiguous`` and ``lenient_ambiguous``: the same of these alone. None where there is
        no such mention.
    """
    names = cache(lambda number: frozenset(map(normalised, kb.entities([number])[0].names)))
    shared = cache(lambda surface: len(kb.numbers_named(surface)) > 1)
    rows = []  # of each mention whether it is right by its id, right by a name, and ambiguous
    for example in examples:
        found = {(s.start_char, s.end_char): s for s in mention_spans(example.predicted, spans_key)}
        for span in mention_spans(example.reference, spans_key):
            golds = {number for id in gold_ids(span) if (number := kb.number(id)) is not None}
            linked = found.get((span.start_char, span.end_char))
            ids = linked._.kb_candidate_columns.get("id", []) if linked is not None else []
            answer = kb.number(ids[0]) if ids else None
            if golds:
                own = frozenset() if answer is None else names(answer)
                lenient = any(not own.isdisjoint(names(gold)) for gold in golds)
                rows.append((answer in golds, lenient, shared(span.text)))
    several = [row for row in rows if row[2]]

    def share(of: Sequence[tuple[bool, ...]], column: int) -> float | None:
        return sum(row[column] for row in of) / len(of) if of else None

    return {
        "strict": share(rows, 0),
        "lenient": share(rows, 1),
        "ambiguous": share(rows, 2),
        "strict_ambiguous": share(several, 0),
        "lenient_ambiguous": share(several, 1),
    }


def surface_summary(scores: dict[str, Any]) -> str:
    """The result of ``surface_scores`` in one line."""
    shown = {name: percent(share) for name, share in scores.items()}
    return (
        f"recall@1 in KB: by id {shown['strict']}, by name {shown['lenient']}; "
        f"{shown['ambiguous']} % of mentions are a name of several entities: by id "
        f"{shown['strict_ambiguous']}, by name {shown['lenient_ambiguous']}"
    )
