"""What linking, and joint linking, write on a Doc: plain data, which can be saved and sent."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, repeat
from math import isnan, nan
from typing import Any

import numpy as np
from spacy.tokens import Doc, Span

from ..kb.knowledge_base import KnowledgeBase
from ..kb.mentions import KnownMention
from ..linking.link import Links
from ..linking.ordering import Evidence
from ..spans import NIL
from .settings import OutputSettings

_QUOTED = 60  # characters before and after a mention that is quoted
# The attributes that are None before linking, or without the setting that asks for them.
_SINGLE = (
    *("read_as", "kb_id", "kb_score", "kb_probability", "kb_xrefs", "kb_vector", "kb_via"),
    "kb_attributes",
)
# What is written on a mention: the values of attributes of its span, by their names.
Prediction = dict[str, Any]


def install_extensions() -> None:
    """Add to spans ``kb_id``, ``kb_types`` and the other attributes that linking writes, and ``read_as``.

    A span with ``read_as`` is linked as if these were its words.

    Candidates are kept as ``kb_candidate_columns``. A dictionary for each candidate would take four
    times the memory, and a tenth of the time of a fast linker.

    An attribute that has been added before is left as it is. scispaCy's linker adds ``kb_ents`` in
    the same way: if both linkers are in a pipeline, it holds what the last of them wrote.
    """
    containers = {"kb_candidate_columns": {}, "kb_ents": [], "kb_types": []}
    for name, default in {**dict.fromkeys(_SINGLE), **containers}.items():
        if not Span.has_extension(name):
            Span.set_extension(name, default=default)
    if not Span.has_extension("kb_candidates"):
        Span.set_extension("kb_candidates", getter=_candidates, setter=_set_candidates)


def _candidates(span: Span) -> list[dict[str, Any]]:
    columns = span._.kb_candidate_columns
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def _set_candidates(span: Span, candidates: list[dict[str, Any]]) -> None:
    names = candidates[0] if candidates else ()
    span._.kb_candidate_columns = {name: [c[name] for c in candidates] for name in names}


def predictions(links: Links, kb: KnowledgeBase, settings: OutputSettings) -> Iterator[Prediction]:
    """What is written on each of the mentions that were linked to a KB, in their order.

    ``kb_candidate_columns`` has the candidates, best first, even if the mention is NIL: a list of
    values for "id", "name" and "score". A linker that reranks adds "rerank_score", which is None for
    a candidate that was not read again. A linker with a ranking adds "probability", which is None
    from the ninth candidate on. A KB with learnt mentions adds "as_in": the learnt mention nearest to
    this one, in its text, with its source; None for a candidate that was not found by one. A linker with
    a ranking also adds "matched_name" and "why" (``_reasons``), None from the ninth candidate on. If people
    decided about mentions (``pel fix``), "correction" says what, for the first candidate.
    """
    distinct, places = np.unique(links.numbers, return_inverse=True)
    there = distinct >= 0
    labels = np.full((len(distinct), 2), "", dtype=object)
    labels[there] = np.array(kb.labels(distinct[there]), dtype=object).reshape(-1, 2)
    ids, names = (labels[:, i][places].reshape(links.numbers.shape).tolist() for i in (0, 1))
    # Of each fact about candidates a list of k values a mention.
    columns = {"id": ids, "name": names, "score": links.scores.tolist()}
    for name, values in (
        ("rerank_score", links.rerank_scores),
        ("probability", links.probabilities),
    ):
        if values is not None:
            columns[name] = [[None if isnan(x) else x for x in row] for row in values.tolist()]
    if links.mention_rows is not None:
        rows = np.unique(links.mention_rows[links.mention_rows >= 0])
        quotes = dict(zip(rows.tolist(), map(_quote, kb.mentions.described(rows))))
        columns["as_in"] = [
            [quotes.get(row) for row in line] for line in links.mention_rows.tolist()
        ]
    if links.evidence is not None:
        width = links.numbers.shape[1]
        for name, facts in (
            ("matched_name", links.evidence.names),
            ("why", _reasons(links.evidence, columns["score"])),
        ):
            columns[name] = [(list(own) + [None] * width)[:width] for own in facts]
    if links.decisions is not None:
        columns["correction"] = [
            [said if place == 0 else None for place in range(links.numbers.shape[1])]
            for said in (None if each is None else str(each) for each in links.decisions)
        ]
    best = np.where(links.nil, -1, links.numbers[:, 0] if links.numbers.shape[1] else -1)
    numbers, vocabularies = np.unique(best[best >= 0]).tolist(), settings.xrefs or ()
    entities = dict(zip(numbers, kb.entities(numbers)))
    lines = zip(
        (links.numbers >= 0).sum(axis=1).tolist(),  # the candidates come first of k places
        links.nil.tolist(),
        repeat(nan) if links.probabilities is None else links.probabilities[:, 0].tolist(),
        offered(links, kb, settings),
        zip(*columns.values()),
        best.tolist(),
        links.vectors if settings.vectors else repeat(None),
    )
    for n, nil, probability, chosen, values, number, vector in lines:
        own = {name: value[:n] for name, value in zip(columns, values)}
        own_ids, scores = own["id"] or [""], own["score"] or [None]
        entity = entities.get(number)
        prediction = {
            "kb_id": NIL if nil else own_ids[0],
            "kb_score": scores[0],
            "kb_probability": None if not n or isnan(probability) else probability,
            "kb_candidate_columns": own,
            "kb_ents": list(compress(zip(own_ids, scores), chosen)),
            "kb_types": list(entity.types) if entity else [],
        }
        if vocabularies:
            prediction["kb_xrefs"] = {
                v: list(entity.codes(v)) if entity else [] for v in vocabularies
            }
        if vector is not None:
            prediction["kb_vector"] = vector
        yield prediction


def _reasons(evidence: Evidence, scores: Sequence[Sequence[float]]) -> list[list[str]]:
    """What the decision about each candidate rests on, in a line of facts that the ranking compares.

    For example: "name 86 % alike; score 0.71; defined so in 12 of 30 texts; meant by 2 other mentions".
    """
    return [
        [_reason(*facts) for facts in zip(*of_mention)]
        for of_mention in zip(scores, *(column.tolist() for column in evidence[1:]))
    ]


def _reason(
    score: float, like: float, exact: bool, owners: int, texts: int, all_texts: int, others: int
) -> str:
    name = f"name {like:.0%} alike"
    if exact:
        name = "exact name" + (f", shared by {owners} entities" if owners > 1 else "")
    why = f"{name}; score {score:.2f}"
    if all_texts:
        why += f"; defined so in {texts} of {all_texts} texts"
    if others:
        why += f"; meant by {others} other mention{'s' * (others > 1)} here"
    return why


def offered(links: Links, kb: KnowledgeBase, settings: OutputSettings) -> np.ndarray:
    """Choose the candidates in ``kb_ents``, bool [n, k]. The settings are scispaCy's.

    A mention that is NIL has none. They are the first ``max_entities_per_mention`` whose score, the
    retriever's, is above the threshold. If candidates are filtered for definitions, an entity without
    one is left out unless its score reaches ``no_definition_threshold``.

    It warns if the threshold leaves most mentions without any that are not NIL. scispaCy's scores are
    close to 1 where a name fits. Those of an encoder are lower.
    """
    scores, there = links.scores, links.numbers >= 0
    chosen = there & ~links.nil[:, None]
    if settings.threshold is not None:
        best = scores.max(axis=1, initial=-np.inf)[there.any(axis=1) & ~links.nil]
        if 2 * (best <= settings.threshold).sum() > len(best):
            warnings.warn(
                f"threshold = {settings.threshold} is above the scores of most mentions: their "
                "kb_ents are empty. These scores are not scispaCy's. Set threshold = None, and let "
                '"python -m spacy pel calibrate" find when a mention is NIL (docs/nil.md)',
                stacklevel=2,
            )
        chosen &= scores > settings.threshold
    if settings.filter_for_definitions:
        doubtful = chosen & (scores < settings.no_definition_threshold)
        numbers = np.unique(links.numbers[doubtful])
        undefined = [n for n, e in zip(numbers, kb.entities(numbers)) if e.definition is None]
        chosen &= ~(doubtful & np.isin(links.numbers, undefined))
    return chosen & (chosen.cumsum(axis=1) <= settings.max_entities_per_mention)


def _quote(mention: KnownMention) -> str:
    """For example: "… relapse of [MS] after a brain … (train.pubtator, 8701013)"."""
    source, document, text, start, stop = mention
    before, after = text[max(0, start - _QUOTED) : start], text[stop : stop + _QUOTED]
    if start > _QUOTED:  # a word that was cut is left out
        before = f"… {before.partition(' ')[2]}"
    if stop + _QUOTED < len(text):
        after = f"{after.rpartition(' ')[0]} …"
    where = ", ".join(filter(None, (source, document)))
    return " ".join(f"{before}[{text[start:stop]}]{after} ({where})".split())


def write_predictions(
    docs: Iterable[Doc],
    spans: Iterable[Sequence[Span]],
    predictions: Iterator[Prediction],
    spans_key: str | None,
    overwrite: bool,
) -> None:
    """Write the predictions on the mentions of docs, in their order.

    With ``spans_key`` the mentions are those of ``doc.spans[spans_key]``. Unless it is to ``overwrite``,
    a mention that has an id keeps it, and gets nothing else either.
    """
    for doc, own in zip(docs, spans):
        ids = []
        for span in own:
            prediction = next(predictions)
            if span.kb_id_ and not overwrite:
                kept = {name: value for name, value in prediction.items() if name == "kb_vector"}
                prediction = {"kb_id": span.kb_id_, **kept}
            for name, value in prediction.items():
                setattr(span._, name, value)
            ids.append(prediction["kb_id"])
        if not spans_key:
            # doc.ents makes new spans from the tokens at each call: an id set on such a span would
            # be lost.
            for span, id in zip(own, ids):
                for token in span:
                    token.ent_kb_id_ = id
        elif own:  # a doc may lack the group
            group = doc.spans[spans_key]
            linked = [
                Span(doc, span.start, span.end, label=span.label, kb_id=id, span_id=span.id)
                for span, id in zip(group, ids)
            ]
            doc.spans[spans_key] = type(group)(
                doc, name=group.name, attrs=group.attrs, spans=linked
            )
