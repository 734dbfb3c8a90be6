"""Scores of linked docs against gold: recall@k, MRR, NIL and spaCy's own ``nel_micro_*``."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import (
    Any,
    NamedTuple,
)

import numpy as np
from spacy.scorer import Scorer
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..evaluation.calibration_error import expected_calibration_error
from ..evaluation.concepts import concept_scores
from ..evaluation.linking_metrics import first_hit_ranks, linking_metrics
from ..evaluation.nil_metrics import nil_metrics
from ..kb.knowledge_base import KnowledgeBase
from ..spans import NIL, gold_ids, mention_spans


def make_linking_scorer() -> Callable:
    """The scorer of ``proxy_linker``, for the registry."""
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
    """Score linked mentions; every gold mention counts, also one that the pipeline missed.

    trained_entities: concept ids seen in training, for the split into seen and unseen.
    nil_threshold: the linker's; without one it tells no NIL.

    Gives ``mentions``, ``in_kb``, ``recall@k`` and ``mrr`` (see ``evaluation.linking_metrics``), which look
    at the candidates alone, whether or not they were rejected; of them ``nel_recall_at_1``,
    ``nel_recall_at_64`` and ``nel_mrr`` over the mentions in the KB as plain numbers, which
    ``[training.score_weights]`` needs; ``nil``, what became of the mentions whose entity the KB
    lacks, and recall with NIL as a class (see ``evaluation.nil_metrics``); ``concepts``, precision, recall
    and F1 of the distinct entities of documents (see ``evaluation.concepts``); of a calibrated
    linker ``expected_calibration_error``; and ``nel_micro_p/r/f`` of spaCy's Scorer for mentions in
    ``doc.ents``, where a gold id that the KB lacks has to be found, and NIL is a miss.
    A candidate is right if it is any of the gold ids, or the entity that has one as an alternative
    id.
    """
    examples = list(examples)
    trained = set(trained_entities)
    mentions = list(scored_mentions(examples, kb, spans_key))
    ranks, in_kb = _ranks(mentions)
    seen = np.array([not trained.isdisjoint(m.golds) for m in mentions], dtype=bool)
    scores = linking_metrics(ranks, in_kb, seen if trained else None)
    scores["nel_recall_at_1"] = scores["recall@1"]["in_kb"]
    scores["nel_recall_at_64"] = scores["recall@64"]["in_kb"]
    scores["nel_mrr"] = scores["mrr"]["in_kb"]
    scores["nil"] = nil_scores(mentions, decided=nil_threshold is not None)
    scores["concepts"] = concept_scores(_concepts(e, kb, spans_key) for e in examples)
    probable = [(m.probability, m.right) for m in mentions if m.probability is not None]
    if probable:
        scores["expected_calibration_error"] = expected_calibration_error(*zip(*probable))
    if spans_key is None:
        resolved = [_resolved(example, kb) for example in examples]
        scores.update(Scorer.score_links(resolved, negative_labels=[NIL, ""]))
    return scores


class ScoredMention(NamedTuple):
    """A gold mention and what was said of it.

    golds: concept ids any of which is right; none if the KB has none of the mention's gold ids.
    candidates: concept ids, best first; none for a mention that the pipeline missed.
    score: the retriever's for the candidate that it holds best, by which NIL is decided; -inf if
        there is none, inf if the linker did not see the mention.
    decisive: the score that has put the first candidate first: the reranker's, or else the
        retriever's, and what an exact name was worth.
    """

    golds: tuple[str, ...]
    candidates: list[str]
    score: float
    decisive: float
    said_nil: bool
    probability: float | None

    @property
    def right(self) -> bool:
        """Whether the best candidate is right, be it rejected or not."""
        return bool(self.candidates) and self.candidates[0] in self.golds


def scored_mentions(
    examples: Iterable[Example],
    kb: KnowledgeBase,
    spans_key: str | None,
    name_weight: float = 0.0,
) -> Iterator[ScoredMention]:
    """The gold mentions of the examples, each with what the predicted doc says of it.

    name_weight: what an exact name was worth to the order of the candidates.
    """
    for example in examples:
        predicted = {_offsets(s): s for s in mention_spans(example.predicted, spans_key)}
        for span in mention_spans(example.reference, spans_key):
            golds = _concept_ids(kb, gold_ids(span))
            found = predicted.get(_offsets(span))
            if found is None:
                yield ScoredMention(golds, [], np.inf, np.inf, False, None)
                continue
            candidates = found._.kb_candidates
            none = -np.inf if found._.kb_id in ("", NIL) else np.inf
            score = max((candidate["score"] for candidate in candidates), default=none)
            decisive = _decisive(candidates[0], name_weight) if candidates else none
            ids = [candidate["id"] for candidate in candidates]
            nil, probability = found.kb_id_ == NIL, found._.kb_probability
            yield ScoredMention(golds, ids, score, decisive, nil, probability)


def _decisive(candidate: dict[str, Any], name_weight: float) -> float:
    score = candidate.get("rerank_score", candidate["score"])
    return score + name_weight * candidate.get("name_match", False)


def _concepts(
    example: Example, kb: KnowledgeBase, spans_key: str | None
) -> tuple[list[str], list[str]]:
    """The entities of a document: those of its gold mentions, and those that were said to be."""
    gold = []
    for span in mention_spans(example.reference, spans_key):
        for id in gold_ids(span):
            gold += _concept_ids(kb, [id]) or [id]
    said = [span.kb_id_ for span in mention_spans(example.predicted, spans_key)]
    return gold, [id for id in said if id not in ("", NIL)]


def nil_scores(mentions: Sequence[ScoredMention], *, decided: bool) -> dict[str, Any]:
    """What ``evaluation.nil_metrics`` says of the mentions. decided: whether there is a threshold."""
    ranks, in_kb = _ranks(mentions)
    said_nil = [mention.said_nil for mention in mentions]
    return nil_metrics([m.score for m in mentions], said_nil, ranks, in_kb, decided=decided)


def _ranks(mentions: Sequence[ScoredMention]) -> tuple[np.ndarray, np.ndarray]:
    """Of each mention its entity's rank, 0 if it is no candidate, and whether the KB has it."""
    golds = [mention.golds for mention in mentions]
    ranks = first_hit_ranks([mention.candidates for mention in mentions], golds)
    return ranks, np.array([len(gold) > 0 for gold in golds], dtype=bool)


def _offsets(span: Span) -> tuple[int, int]:
    return span.start_char, span.end_char


def _concept_ids(kb: KnowledgeBase, ids: Iterable[str]) -> tuple[str, ...]:
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
