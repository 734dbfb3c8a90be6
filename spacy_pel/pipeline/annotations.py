"""What linking writes on a Doc."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc, Span

from ..kb.knowledge_base import KnowledgeBase
from ..kb.mentions import KnownMention
from ..linking.link import Links
from ..spans import NIL
from .extensions import Columns

_QUOTED = 60  # characters before and after a mention that is quoted


class LinkedSpans(NamedTuple):
    """The result of linking docs.

    Attributes:
        spans: The mentions of each doc.
        links: The results for all mentions, in their order.
    """

    spans: list[list[Span]]
    links: Links


class Answer(NamedTuple):
    """The result of linking a mention, as plain data.

    Attributes:
        id: The id of the best candidate; "NIL" if that is rejected; "" if there is none to reject.
        score: The score of the best candidate; None if there is none.
        probability: The probability that the best candidate is right; None if there is no candidate,
            or the linker is not calibrated.
        columns: The candidates, best first, even if the mention is NIL: a list of values for "id",
            "name" and "score". A linker that reranks adds "rerank_score", which is None for a
            candidate that was not read again. A linker with a bonus for exact names adds
            "name_match": whether the mention is a name of the candidate. A KB with learnt mentions
            adds "as_in": the learnt mention nearest to this one, in its text, with its source; None
            for a candidate that was not found by one.
        kb_ents: The id and the score of each candidate that passes scispaCy's settings
            (``AnswerSettings``), in scispaCy's form.
        types: The semantic types of the entity with this id; none for NIL.
        xrefs: The codes of the same entity in each vocabulary that was asked for; None if none was.
        vector: float32 [d], the vector of the mention; None if it was not asked for.
        via: The mention through which this one has its entity; None if it has it by itself. See
            ``joint_answers.Via``.
    """

    id: str
    score: float | None
    probability: float | None
    columns: Columns
    kb_ents: list[tuple[str, float]]
    types: list[str]
    xrefs: dict[str, list[str]] | None
    vector: np.ndarray | None = None
    via: dict[str, Any] | None = None


def answers(
    links: Links, kb: KnowledgeBase, offered: np.ndarray, vocabularies: Sequence[str] = ()
) -> Iterator[Answer]:
    """The answer to each mention, in their order.

    Args:
        links: What linking says of n mentions.
        kb: The KB that has their entities.
        offered: bool [n, k], which candidates are in ``kb_ents``; false where there is none.
        vocabularies: Those whose codes are given; see ``Entity.codes``.
    """
    columns = _columns(links, kb)
    found = (links.numbers >= 0).sum(axis=1).tolist()  # the candidates come first of k places
    if links.probabilities is None:
        probabilities = [None] * len(links.nil)
    else:
        probabilities = links.probabilities.tolist()
    details = _details(links, kb, vocabularies)
    lines = zip(found, links.nil.tolist(), probabilities, offered, zip(*columns.values()), details)
    for n, nil, probability, chosen, values, (types, xrefs) in lines:
        own = {name: value[:n] for name, value in zip(columns, values)}
        if n:
            ids, scores = own["id"], own["score"]
            ents = list(compress(zip(ids, scores), chosen))
            id, score = NIL if nil else ids[0], scores[0]
            yield Answer(id, score, probability, own, ents, types, xrefs)
        else:
            yield Answer(NIL if nil else "", None, None, own, [], types, xrefs)


def _details(
    links: Links, kb: KnowledgeBase, vocabularies: Sequence[str]
) -> Iterator[tuple[list[str], dict[str, list[str]] | None]]:
    """The types and the codes of each mention's entity; new ones, which may be changed."""
    best = np.where(links.nil, -1, links.numbers[:, 0] if links.numbers.shape[1] else -1)
    numbers = np.unique(best[best >= 0]).tolist()
    entities = dict(zip(numbers, kb.entities(numbers)))
    for number in best.tolist():
        entity = entities.get(number)
        codes = {v: list(entity.codes(v)) if entity else [] for v in vocabularies}
        yield list(entity.types) if entity else [], codes or None


def _columns(links: Links, kb: KnowledgeBase) -> dict[str, list[list]]:
    """What is known of all candidates: for each name of a fact, a list of k values a mention."""
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
    if links.mention_rows is not None:
        columns["as_in"] = _quoted(links.mention_rows, kb)
    return columns


def _quoted(rows: np.ndarray, kb: KnowledgeBase) -> list[list[str | None]]:
    """Learnt mentions in a few words of their texts, with their sources; None for row -1."""
    distinct = np.unique(rows[rows >= 0])
    known = zip(distinct.tolist(), kb.mentions.described(distinct))
    quotes = {row: _quote(mention, source) for row, (source, mention) in known}
    return [[quotes.get(row) for row in line] for line in rows.tolist()]


def _quote(mention: KnownMention, source: str) -> str:
    """For example: "… relapse of [MS] after a brain … (train.pubtator, 8701013)"."""
    document, text, start, stop = mention
    before, after = text[max(0, start - _QUOTED) : start], text[stop : stop + _QUOTED]
    if start > _QUOTED:  # a word that was cut is left out
        before = f"… {before.partition(' ')[2]}"
    if stop + _QUOTED < len(text):
        after = f"{after.rpartition(' ')[0]} …"
    where = ", ".join(filter(None, (source, document)))
    return " ".join(f"{before}[{text[start:stop]}]{after} ({where})".split())


def write_answers(
    docs: Iterable[Doc],
    spans: Iterable[Sequence[Span]],
    answers: Iterator[Answer],
    spans_key: str | None,
    overwrite: bool,
) -> None:
    """Write the answers on the mentions of docs.

    Args:
        docs: The docs.
        spans: The mentions of each doc.
        answers: The answer to each mention, in their order.
        spans_key: The group of ``doc.spans`` that has the mentions; None if they are in ``doc.ents``.
        overwrite: Whether an id that is there is replaced. A mention that keeps its id gets nothing
            else either.
    """
    for doc, own in zip(docs, spans):
        ids = [_annotate(span, next(answers), overwrite) for span in own]
        if not spans_key:
            _write_token_ids(own, ids)
        elif own:  # a doc may lack the group
            _write_group_ids(doc, spans_key, ids)


def _annotate(span: Span, answer: Answer, overwrite: bool) -> str:
    """Set the attributes of a span, and return its id."""
    values = span._
    if answer.vector is not None:
        values.kb_vector = answer.vector
    if span.kb_id_ and not overwrite:
        values.kb_id = span.kb_id_
        return span.kb_id_
    values.kb_id = answer.id
    values.kb_score = answer.score
    values.kb_probability = answer.probability
    values.kb_candidate_columns = answer.columns
    values.kb_ents = answer.kb_ents
    values.kb_types = answer.types
    if answer.xrefs is not None:
        values.kb_xrefs = answer.xrefs
    if answer.via is not None:
        values.kb_via = answer.via
    return answer.id


def _write_token_ids(spans: Sequence[Span], ids: Sequence[str]) -> None:
    # doc.ents makes new spans from the tokens at each call: an id set on such a span would be lost.
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
