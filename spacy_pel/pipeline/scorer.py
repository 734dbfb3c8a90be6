"""Scores of linked docs against gold: recall@k, MRR and spaCy's own ``nel_micro_*``."""

from typing import Any, Callable, Collection, Dict, Iterable, List, Optional, Tuple

import numpy as np
from spacy.scorer import Scorer
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..evaluation.metrics import first_hit_ranks, linking_metrics
from ..kb.knowledge_base import KnowledgeBase
from ..training.corpus import NIL, gold_ids, gold_mentions


def make_linking_scorer() -> Callable:
    """The scorer of ``proxy_linker``, for the registry."""
    return linking_scores


def linking_scores(
    examples: Iterable[Example],
    *,
    kb: KnowledgeBase,
    trained_entities: Collection[str],
    spans_key: Optional[str] = None,
    **kwargs: Any,
) -> Dict[str, Any]:
    """Score linked mentions; every gold mention counts, also one that the pipeline missed.

    trained_entities: concept ids seen in training, for the split into seen and unseen.
    Gives ``mentions``, ``in_kb``, ``recall@k`` and ``mrr`` (see ``evaluation.metrics``); of them
    ``nel_recall_at_1``, ``nel_recall_at_64`` and ``nel_mrr`` over the mentions in the KB as plain
    numbers, which ``[training.score_weights]`` needs; and ``nel_micro_p/r/f`` of spaCy's Scorer
    for mentions in ``doc.ents``. A candidate is right if it is any of the gold ids, or the entity
    that has one as an alternative id.
    """
    examples = list(examples)
    trained = set(trained_entities)
    candidates: List[List[str]] = []
    golds: List[Tuple[str, ...]] = []
    for example in examples:
        predicted = {_offsets(s): s for s in gold_mentions(example.predicted, spans_key)}
        for span in gold_mentions(example.reference, spans_key):
            found = predicted.get(_offsets(span))
            candidates.append([c["id"] for c in found._.kb_candidates] if found else [])
            golds.append(_concept_ids(kb, gold_ids(span)))
    in_kb = np.array([len(gold) > 0 for gold in golds], dtype=bool)
    seen = np.array([not trained.isdisjoint(gold) for gold in golds], dtype=bool)
    ranks = first_hit_ranks(candidates, golds)
    scores = linking_metrics(ranks, in_kb, seen if trained else None)
    scores["nel_recall_at_1"] = scores["recall@1"]["in_kb"]
    scores["nel_recall_at_64"] = scores["recall@64"]["in_kb"]
    scores["nel_mrr"] = scores["mrr"]["in_kb"]
    if spans_key is None:
        resolved = [_resolved(example, kb) for example in examples]
        scores.update(Scorer.score_links(resolved, negative_labels=[NIL, ""]))
    return scores


def _offsets(span: Span) -> Tuple[int, int]:
    return span.start_char, span.end_char


def _concept_ids(kb: KnowledgeBase, ids: Iterable[str]) -> Tuple[str, ...]:
    """The concept ids of those of the ids that the KB has."""
    numbers = [n for n in map(kb.number, ids) if n is not None]
    return tuple(id for id, _ in kb.labels(numbers))


def _resolved(example: Example, kb: KnowledgeBase) -> Example:
    """The example with one gold id a mention, since spaCy compares strings.

    Of several that are right it is the predicted one, if that is among them.
    """
    predicted = {_offsets(ent): ent.kb_id_ for ent in example.predicted.ents}
    reference: Doc = example.reference.copy()
    ents = []
    for ent in reference.ents:
        raw = gold_ids(ent)
        ids = _concept_ids(kb, raw) or raw
        answer = predicted.get(_offsets(ent))
        id = answer if answer in ids else (ids[0] if ids else NIL)
        ents.append(Span(reference, ent.start, ent.end, label=ent.label, kb_id=id))
    reference.ents = ents
    return Example(example.predicted, reference)
