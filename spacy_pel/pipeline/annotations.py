"""What linking writes on a Doc."""

from __future__ import annotations

from itertools import compress
from math import isnan
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from spacy.tokens import Doc, Span

from ..kb.knowledge_base import KnowledgeBase
from ..linking import Links
from ..training.corpus import NIL, gold_mentions


class Answer(NamedTuple):
    """What is said of a mention, as plain data.

    id: of the best candidate, "NIL" if that is rejected; "" if there is none to reject.
    score, probability: of the best candidate; None if there is none. Nor is there a probability
        before the linker is calibrated.
    candidates: {"id", "name", "score"} of each, best first, also where they are rejected; from a
        linker that reranks also "rerank_score", None of those that were not looked at again; from
        one to which exact names say something also "name_match", whether it is one.
    kb_ents: (id, score) of those that are offered, as scispaCy gives them.
    """

    id: str
    score: Optional[float]
    probability: Optional[float]
    candidates: List[Dict[str, Any]]
    kb_ents: List[Tuple[str, float]]


def answers(links: Links, kb: KnowledgeBase, offered: np.ndarray) -> Iterator[Answer]:
    """An answer a mention, in their order.

    offered: bool [n, k], which candidates are in ``kb_ents``; false where there is none.
    """
    distinct = np.unique(links.numbers)
    distinct = distinct[distinct >= 0].tolist()
    labels = dict(zip(distinct, kb.labels(distinct)))
    if links.probabilities is None:
        probabilities = [None] * len(links.nil)
    else:
        probabilities = links.probabilities.tolist()
    more = _more(links)
    lines = zip(
        links.numbers.tolist(), links.scores.tolist(), offered, links.nil.tolist(), probabilities
    )
    for line, (numbers, scores, chosen, nil, probability) in enumerate(lines):
        candidates = [
            {"id": labels[number][0], "name": labels[number][1], "score": score}
            for number, score in zip(numbers, scores)
            if number >= 0  # fewer than there are places: those come first
        ]
        for name, rows in more.items():
            for candidate, value in zip(candidates, rows[line]):
                candidate[name] = value
        if candidates:
            best = candidates[0]
            ents = [(c["id"], c["score"]) for c in compress(candidates, chosen)]
            yield Answer(NIL if nil else best["id"], best["score"], probability, candidates, ents)
        else:
            yield Answer(NIL if nil else "", None, None, [], [])


def _more(links: Links) -> Dict[str, List[list]]:
    """What is said of candidates besides their score, by its name: a list a mention."""
    more: Dict[str, List[list]] = {}
    if links.rerank_scores is not None:
        again = links.rerank_scores.tolist()
        more["rerank_score"] = [[None if isnan(x) else x for x in row] for row in again]
    if links.named is not None:
        more["name_match"] = links.named.tolist()
    return more


def write_answers(
    docs: Iterable[Doc], answers: Iterator[Answer], spans_key: Optional[str], overwrite: bool
) -> None:
    """Write the answers on the mentions of the docs, in their order.

    overwrite: whether an id that is there is replaced; a mention that keeps its own is given
        nothing else either.
    """
    for doc in docs:
        spans = gold_mentions(doc, spans_key)
        ids = [_annotate(span, next(answers), overwrite) for span in spans]
        if not spans_key:
            _write_token_ids(spans, ids)
        elif spans:  # a doc may lack the group
            _write_group_ids(doc, spans_key, ids)


def _annotate(span: Span, answer: Answer, overwrite: bool) -> str:
    """Set the span's attributes; gives its id."""
    if span.kb_id_ and not overwrite:
        span._.kb_id = span.kb_id_
        return span.kb_id_
    span._.kb_id = answer.id
    span._.kb_score = answer.score
    span._.kb_probability = answer.probability
    span._.kb_candidates = answer.candidates
    span._.kb_ents = answer.kb_ents
    return answer.id


def _write_token_ids(spans: Sequence[Span], ids: Sequence[str]) -> None:
    # doc.ents makes its spans anew from the tokens: an id set on such a span would be lost.
    for span, id in zip(spans, ids):
        for token in span:
            token.ent_kb_id_ = id


def _write_group_ids(doc: Doc, key: str, ids: Sequence[str]) -> None:
    group = doc.spans[key]
    linked = [
        Span(doc, span.start, span.end, label=span.label, kb_id=id, span_id=span.id)
        for span, id in zip(group, ids)
    ]
    doc.spans[key] = type(group)(doc, name=group.name, attrs=group.attrs, spans=linked)
