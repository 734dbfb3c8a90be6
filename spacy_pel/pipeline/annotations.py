"""The attributes that linking and joint linking write on a Doc: plain data, which can be saved and sent."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from math import isnan
from typing import Any

import numpy as np
from spacy.tokens import Doc, Span

from ..kb.knowledge_base import KnowledgeBase
from ..kb.mentions import KnownMention
from ..linking.link import Links
from ..linking.ordering import Evidence
from ..spans import NIL
from .settings import OutputSettings

_N_QUOTED = 60  # characters before and after a quoted mention
# The attributes that are None before linking or without their setting.
_SINGLE = (
    *("read_as", "kb_id", "kb_score", "kb_probability", "kb_xrefs", "kb_vector", "kb_via"),
    "kb_attributes",
)
Prediction = dict[str, Any]  # the attributes of the span of a mention, by name


def install_extensions() -> None:
    """Register the span attributes that linking writes, such as ``kb_id``, and ``read_as``.

    A span with ``read_as`` is linked as if these were its words.

    Candidates are stored as ``kb_candidate_columns``. A dictionary for each candidate would take four
    times the memory, and a tenth of the time of a fast linker.

    An attribute that is already registered stays. scispaCy's linker also writes ``kb_ents``: in a pipeline
    with both linkers, the later one determines it.
    """
    containers: Prediction = {"kb_candidate_columns": {}, "kb_ents": [], "kb_types": []}
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


def predictions(
    links: Links, kb: KnowledgeBase, settings: OutputSettings, read_as: Sequence[str]
) -> Iterator[Prediction]:
    """Yield the attributes of each mention that was linked to a KB, in order.

    ``read_as`` has the words as which each mention was read, or "" for its own.

    ``kb_candidate_columns`` has a list of values for each fact about the candidates, best first, even
    if the mention is NIL:

    - "id", "name" and "score".
    - "rerank_score", with a reranker; None for a candidate that was not reranked.
    - "probability", "matched_name" and "why" (``_reasons``), with a ranking; None from the ninth
      candidate on.
    - "as_in", with a KB that has learnt mentions: the nearest learnt mention in its text, with its source;
      None for a candidate without one.
    - "correction", if people decided about mentions (``pel fix``): the decision, at the first candidate.
    """
    distinct, places = np.unique(links.numbers, return_inverse=True)
    present = distinct >= 0
    labels = np.full((len(distinct), 2), "", dtype=object)
    labels[present] = np.array(kb.labels(distinct[present]), dtype=object).reshape(-1, 2)
    ids, names = (labels[:, i][places].reshape(links.numbers.shape).tolist() for i in (0, 1))
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
            ("why", _reasons(links.evidence, columns["score"], read_as)),
        ):
            columns[name] = [(list(row) + [None] * width)[:width] for row in facts]
    if links.decisions is not None:
        columns["correction"] = [
            [decision and str(decision), *[None] * (links.numbers.shape[1] - 1)]
            for decision in links.decisions
        ]
    best = np.where(links.nil, -1, links.numbers[:, 0] if links.numbers.shape[1] else -1)
    numbers, vocabularies = np.unique(best[best >= 0]).tolist(), settings.xrefs or ()
    entities = dict(zip(numbers, kb.entities(numbers)))
    n_candidates = (links.numbers >= 0).sum(axis=1).tolist()  # they come before empty places
    chosen = offered(links, kb, settings)
    for row, (n, number) in enumerate(zip(n_candidates, best.tolist())):
        of_mention = {name: values[row][:n] for name, values in columns.items()}
        mention_ids, scores = of_mention["id"] or [""], of_mention["score"] or [None]
        entity = entities.get(number)
        prediction = {
            "kb_id": NIL if links.nil[row] else mention_ids[0],
            "kb_score": scores[0],
            "kb_probability": of_mention["probability"][0]
            if n and "probability" in columns
            else None,
            "kb_candidate_columns": of_mention,
            "kb_ents": list(compress(zip(mention_ids, scores), chosen[row])),
            "kb_types": list(entity.types) if entity else [],
        }
        if vocabularies:
            prediction["kb_xrefs"] = {
                v: list(entity.codes(v)) if entity else [] for v in vocabularies
            }
        if settings.vectors:
            prediction["kb_vector"] = links.vectors[row]
        yield prediction


def _reasons(
    evidence: Evidence, scores: Sequence[Sequence[float]], read_as: Sequence[str]
) -> list[list[str]]:
    """Return the facts about each candidate that the ranking compares, in a line.

    For example: "name 86 % similar; score 0.71; defined so in 12 of 30 texts; meant by 2 other mentions".
    """
    facts_of_all = zip(scores, *(column.tolist() for column in evidence[1:]))
    return [
        [(f'read as "{words}"; ' if words else "") + _reason(*facts) for facts in zip(*of_mention)]
        for words, of_mention in zip(read_as, facts_of_all)
    ]


def _reason(
    score: float,
    similarity: float,
    exact: bool,
    owners: int,
    texts: int,
    all_texts: int,
    others: int,
) -> str:
    name = f"name {similarity:.0%} similar"
    if exact:
        name = "exact name" + (f", shared by {owners} entities" if owners > 1 else "")
    why = f"{name}; score {score:.2f}"
    if all_texts:
        why += f"; defined so in {texts} of {all_texts} texts"
    if others:
        why += f"; meant by {others} other mention{'s' * (others > 1)} here"
    return why


def offered(links: Links, kb: KnowledgeBase, settings: OutputSettings) -> np.ndarray:
    """Return which candidates are in ``kb_ents``, bool [n, k]. The settings are scispaCy's.

    A mention that is NIL has none. The others have the first ``max_entities_per_mention`` whose score by
    the retriever is above the threshold. If candidates are filtered for definitions, an entity without
    one is left out unless its score reaches ``no_definition_threshold``.

    It warns if the threshold leaves most mentions that are not NIL without an entity. scispaCy's scores are
    close to 1 where a name fits. Those of an encoder are lower.
    """
    scores, present = links.scores, links.numbers >= 0
    chosen = present & ~links.nil[:, None]
    if settings.threshold is not None:
        best = scores.max(axis=1, initial=-np.inf)[present.any(axis=1) & ~links.nil]
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
    chosen &= chosen.cumsum(axis=1) <= settings.max_entities_per_mention
    return chosen


def _quote(mention: KnownMention) -> str:
    """Quote a learnt mention: "… relapse of [MS] after a brain … (train.pubtator, 8701013)"."""
    source, document, text, start, stop = mention
    before, after = text[max(0, start - _N_QUOTED) : start], text[stop : stop + _N_QUOTED]
    if start > _N_QUOTED:  # without the word that was cut
        before = f"… {before.partition(' ')[2]}"
    if stop + _N_QUOTED < len(text):
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
    """Write the predictions on the mentions of docs, in order.

    With ``spans_key`` the mentions are those of ``doc.spans[spans_key]``. Without ``overwrite`` a mention
    that has an id keeps it, and gets no other attributes except its vector.
    """
    for doc, mentions in zip(docs, spans):
        ids = []
        for span in mentions:
            prediction = next(predictions)
            if span.kb_id_ and not overwrite:
                vector = {"kb_vector": prediction["kb_vector"]} if "kb_vector" in prediction else {}
                prediction = {"kb_id": span.kb_id_, **vector}
            attributes = span._
            for name, value in prediction.items():
                setattr(attributes, name, value)
            ids.append(prediction["kb_id"])
        if not spans_key:
            # doc.ents makes new spans at each call, so an id that is set on a span is lost.
            for span, id in zip(mentions, ids):
                key = doc.vocab.strings.add(id)
                for token in span:
                    token.ent_kb_id = key
        elif mentions:  # otherwise the doc may lack the group
            group = doc.spans[spans_key]
            linked = [
                Span(doc, span.start, span.end, label=span.label, kb_id=id, span_id=span.id)
                for span, id in zip(group, ids)
            ]
            doc.spans[spans_key] = type(group)(
                doc, name=group.name, attrs=group.attrs, spans=linked
            )
