"""The scorer of linked docs: recall@k, MRR, NIL, and spaCy's ``nel_micro_*``."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from spacy.scorer import Scorer
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..kb.knowledge_base import KnowledgeBase
from ..metrics.linking import concept_scores, first_hit_ranks, linking_metrics, nil_metrics
from ..metrics.probabilities import expected_calibration_error
from ..spans import NIL, gold_ids, mention_spans


def make_linking_scorer() -> Callable[..., dict[str, Any]]:
    """Return the scorer of ``proxy_linker``, for the registry."""
    return linking_scores


def linking_scores(
    examples: Iterable[Example],
    *,
    kb: KnowledgeBase,
    trained_entities: Collection[str],
    spans_key: str | None = None,
    nil_threshold: float | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Score linked mentions. Every gold mention counts, even if the pipeline missed it.

    A candidate is correct if one of the mention's gold ids is its concept id or its alternative id.

    Args:
        examples: Linked docs with their gold mentions.
        kb: The knowledge base that was linked to.
        trained_entities: The concept ids seen in training, by which scores are split.
        spans_key: The mentions are ``doc.spans[spans_key]``; None: ``doc.ents``.
        nil_threshold: The linker's threshold; None: no mention is NIL.
        **kwargs: Unused; spaCy passes them to all scorers.

    Returns:
        The scores by their names:

        - ``mentions``, ``in_kb``, ``recall@k``, ``mrr``: of the candidates, whether or not these were
          rejected (``metrics.linking``).
        - ``nel_recall_at_1``, ``nel_recall_at_64``, ``nel_mrr``: the same over the mentions whose
          entity the KB has, as plain numbers, which ``[training.score_weights]`` needs.
        - ``nil``: how well NIL mentions were found, and recall with NIL as a class
          (``metrics.linking``).
        - ``nel_nil_f``, ``nel_accuracy``: F1 of NIL, and recall@1 with NIL as a class, as plain
          numbers, which ``spacy find-threshold`` needs.
        - ``concepts``: precision, recall and F1 of the distinct entities of documents.
        - ``expected_calibration_error``: of a calibrated linker.
        - ``nel_micro_p``, ``nel_micro_r``, ``nel_micro_f``: those of spaCy's Scorer, for mentions
          in ``doc.ents``. A gold id that the KB lacks has to be found, and NIL is a miss.
    """
    examples = list(examples)
    trained = set(trained_entities)
    mentions = list(scored_mentions(examples, kb, spans_key))
    golds = [mention.golds for mention in mentions]
    ranks = first_hit_ranks([mention.candidates for mention in mentions], golds)
    in_kb = np.array([len(gold) > 0 for gold in golds], dtype=bool)
    seen = np.array([not trained.isdisjoint(m.golds) for m in mentions], dtype=bool)
    scores = linking_metrics(ranks, in_kb, seen if trained else None)
    scores["nel_recall_at_1"] = scores["recall@1"]["in_kb"]
    scores["nel_recall_at_64"] = scores["recall@64"]["in_kb"]
    scores["nel_mrr"] = scores["mrr"]["in_kb"]
    nil_scores = [mention.score for mention in mentions]
    predicted_nil = [mention.is_nil for mention in mentions]
    decided = nil_threshold is not None
    scores["nil"] = nil_metrics(nil_scores, predicted_nil, ranks, in_kb, decided=decided)
    scores["nel_nil_f"] = scores["nil"]["f1"] or 0.0
    scores["nel_accuracy"] = scores["nil"]["recall@1"] or 0.0
    scores["concepts"] = concept_scores(_concepts(e, kb, spans_key) for e in examples)
    probable = [
        (m.probability, r == 1) for m, r in zip(mentions, ranks) if m.probability is not None
    ]
    if probable:
        scores["expected_calibration_error"] = expected_calibration_error(*zip(*probable))
    if spans_key is None:
        resolved = [_resolved(example, kb) for example in examples]
        scores.update(Scorer.score_links(resolved, negative_labels=[NIL, ""]))
    return scores


class ScoredMention(NamedTuple):
    """A gold mention and its prediction."""

    golds: tuple[str, ...]  # the correct concept ids; none if the KB has none of the gold ids
    candidates: list[str]  # concept ids, best first; none for a mention that the pipeline missed
    # As ``linking.link.Links.nil_score``: -inf without a candidate, inf for a mention that was missed.
    score: float
    is_nil: bool  # predicted as NIL
    # That the first candidate is correct, even if it is NIL; None before calibration.
    probability: float | None


def scored_mentions(
    examples: Iterable[Example],
    kb: KnowledgeBase,
    spans_key: str | None,
) -> Iterator[ScoredMention]:
    """Yield the gold mentions of linked docs with their predictions; see ``linking_scores``."""
    for example in examples:
        predicted = {_offsets(s): s for s in mention_spans(example.predicted, spans_key)}
        for span in mention_spans(example.reference, spans_key):
            golds = _concept_ids(kb, gold_ids(span))
            linked = predicted.get(_offsets(span))
            if linked is None:
                yield ScoredMention(golds, [], np.inf, False, None)
                continue
            candidates = linked._.kb_candidates
            # A given id has no candidates, but is not NIL.
            default = -np.inf if linked._.kb_id in ("", NIL) else np.inf
            score = max((candidate["score"] for candidate in candidates), default=default)
            if candidates and "probability" in candidates[0]:
                score = sum(candidate["probability"] or 0.0 for candidate in candidates)
            ids = [candidate["id"] for candidate in candidates]
            is_nil = linked.kb_id_ == NIL
            yield ScoredMention(golds, ids, score, is_nil, linked._.kb_probability)


def _concepts(
    example: Example, kb: KnowledgeBase, spans_key: str | None
) -> tuple[list[str], list[str]]:
    """Return the gold ids and the predicted ids of a document."""
    gold = [id for span in mention_spans(example.reference, spans_key) for id in gold_ids(span)]
    predicted = [span.kb_id_ for span in mention_spans(example.predicted, spans_key)]
    known = [_concept_ids(kb, [id]) or (id,) for id in gold]
    return [id for ids in known for id in ids], [id for id in predicted if id not in ("", NIL)]


def _offsets(span: Span) -> tuple[int, int]:
    return span.start_char, span.end_char


def _concept_ids(kb: KnowledgeBase, ids: Iterable[str]) -> tuple[str, ...]:
    """Return the concept ids of the entities with these ids."""
    numbers = [n for n in map(kb.number, ids) if n is not None]
    return tuple(id for id, _ in kb.labels(numbers))


def _resolved(example: Example, kb: KnowledgeBase) -> Example:
    """Return the example with one gold id for each mention, because spaCy compares strings.

    It is the predicted id if that is correct.
    """
    predicted = {_offsets(ent): ent.kb_id_ for ent in example.predicted.ents}
    reference: Doc = example.reference.copy()
    ents = []
    for ent in reference.ents:
        ids = _concept_ids(kb, gold_ids(ent)) or gold_ids(ent) or (NIL,)
        prediction = predicted.get(_offsets(ent))
        id = prediction if prediction in ids else ids[0]
        ents.append(Span(reference, ent.start, ent.end, label=ent.label, kb_id=id))
    reference.ents = ents
    return Example(example.predicted, reference)
