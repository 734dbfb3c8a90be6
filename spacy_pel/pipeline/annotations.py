"""What linking writes on a Doc."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from math import isnan
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc, Span

from ..kb.knowledge_base import KnowledgeBase
from ..linking.link import Links
from ..spans import NIL, mention_spans
from .extensions import Columns


class Answer(NamedTuple):
    """What is said of a mention, as plain data.

    id: of the best candidate, "NIL" if that is rejected; "" if there is none to reject.
    score, probability: of the best candidate; None if there is none. Nor is there a probability
        before the linker is calibrated.
    columns: of the candidates, best first, also where they are rejected: their "id", "name" and
        "score"; from a linker that reranks also "rerank_score", None of those that were not looked
        at again; from one to which exact names say something also "name_match", whether it is one.
    kb_ents: (id, score) of those that are offered, as scispaCy gives them.
    """

    id: str
    score: float | None
    probability: float | None
    columns: Columns
    kb_ents: list[tuple[str, float]]


def answers(links: Links, kb: KnowledgeBase, offered: np.ndarray) -> Iterator[Answer]:
    """An answer a mention, in their order.

    offered: bool [n, k], which candidates are in ``kb_ents``; false where there is none.
    """
    columns = _columns(links, kb)
    found = (links.numbers >= 0).sum(axis=1).tolist()  # of k places; they come first
    if links.probabilities is None:
        probabilities = [None] * len(links.nil)
    else:
        probabilities = links.probabilities.tolist()
    lines = zip(found, links.nil.tolist(), probabilities, offered, zip(*columns.values()))
    for n, nil, probability, chosen, values in lines:
        own = {name: value[:n] for name, value in zip(columns, values)}
        if n:
            ids, scores = own["id"], own["score"]
            ents = list(compress(zip(ids, scores), chosen))
            yield Answer(NIL if nil else ids[0], scores[0], probability, own, ents)
        else:
            yield Answer(NIL if nil else "", None, None, own, [])


def _columns(links: Links, kb: KnowledgeBase) -> dict[str, list[list]]:
    """What is said of all candidates: by its name, a list of k a mention."""
    distinct, places = np.unique(links.numbers, return_inverse=True)
    there = distinct >= 0
    labels = np.full((len(distinct), 2), "", dtype=object)
    labels[there] = np.array(kb.labels(distinct[there]), dtype=object).reshape(-1, 2)
    ids, names = (labels[:, i][places].reshape(links.numbers.shape).tolist() for i in (0, 1))
    columns = {"id": ids, "name": names, "score": links.scores.tolist()}
    if links.rerank_scores is not None:
        again = links.rerank_scores.tolist()
        columns["rerank_score"] = [[None if isnan(x) else x for x in row] for row in again]
    if links.named is not None:
        columns["name_match"] = links.named.tolist()
    return columns


def write_answers(
    docs: Iterable[Doc], answers: Iterator[Answer], spans_key: str | None, overwrite: bool
) -> None:
    """Write the answers on the mentions of the docs, in their order.

    overwrite: whether an id that is there is replaced; a mention that keeps its own is given
        nothing else either.
    """
    for doc in docs:
        spans = mention_spans(doc, spans_key)
        ids = [_annotate(span, next(answers), overwrite) for span in spans]
        if not spans_key:
            _write_token_ids(spans, ids)
        elif spans:  # a doc may lack the group
            _write_group_ids(doc, spans_key, ids)


def _annotate(span: Span, answer: Answer, overwrite: bool) -> str:
    """Set the span's attributes; gives its id."""
    values = span._
    if span.kb_id_ and not overwrite:
        values.kb_id = span.kb_id_
        return span.kb_id_
    values.kb_id = answer.id
    values.kb_score = answer.score
    values.kb_probability = answer.probability
    values.kb_candidate_columns = answer.columns
    values.kb_ents = answer.kb_ents
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
