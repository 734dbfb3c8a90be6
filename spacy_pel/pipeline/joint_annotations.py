"""Read linked mentions from a Doc for joint linking, and write its results back."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc, Span

from ..kb.knowledge_base import KnowledgeBase
from ..spans import NIL, mention_spans
from .annotations import Prediction, write_predictions

# What is written on the mentions that have their entity through another one: these facts of it.
VIA = ("document", "start", "end", "text")


class CorpusMention(NamedTuple):
    """A mention that was linked by itself, as plain data."""

    document: str  # the id of its document, or the number of it
    start: int  # its first character
    end: int  # the character after its last
    text: str  # the characters between them
    label: str  # its label
    id: str  # the id of its entity; "" for NIL
    # The probability that its best candidate is right, also for NIL; 1 for an id that it was given.
    # 0 if it has no candidate.
    probability: float


class JointLink(NamedTuple):
    """What joint linking says of a mention."""

    id: str  # the id of its entity; "" for NIL
    # The mention through which it has its entity; None if it has it by itself.
    via: CorpusMention | None
    vector: np.ndarray  # float32 [d], its vector


def take_mentions(
    doc: Doc, document: str, spans_key: str | None
) -> tuple[list[CorpusMention], np.ndarray]:
    """The mentions of a linked Doc, and their vectors, float32 [n, d], which are taken off the Doc.

    It was linked with the setting ``vectors``. ``document`` is its id, or its number.
    """
    spans = mention_spans(doc, spans_key)
    vectors = [span._.kb_vector for span in spans]
    for key in [key for key in doc.user_data if key[:2] == ("._.", "kb_vector")]:
        del doc.user_data[key]
    mentions = []
    for span in spans:
        id = "" if span.kb_id_ == NIL else span.kb_id_
        is_given = bool(span.kb_id_) and not span._.kb_candidate_columns
        probability = float(bool(id)) if is_given else span._.kb_probability or 0.0
        place = span.start_char, span.end_char
        mentions.append(CorpusMention(document, *place, span.text, span.label_, id, probability))
    return mentions, np.array(vectors, np.float32)


def write_joint_links(
    doc: Doc,
    links: Sequence[JointLink],
    kb: KnowledgeBase,
    spans_key: str | None,
    vocabularies: Sequence[str] = (),
) -> None:
    """Write on a Doc what joint linking says of its mentions.

    They were linked one by one. A mention that gets another entity has this as its first candidate.
    It has no probability: that was fitted to mentions linked one by one. ``vocabularies`` are those
    whose codes are written.
    """
    spans = mention_spans(doc, spans_key)
    if any(link.via is not None for link in links):  # who has its entity by itself keeps all
        said = (_prediction(span, link, kb, vocabularies) for span, link in zip(spans, links))
        write_predictions([doc], [spans], said, spans_key, overwrite=True)


def _prediction(
    span: Span, link: JointLink, kb: KnowledgeBase, vocabularies: Sequence[str]
) -> Prediction:
    """What changes on a mention."""
    prediction: Prediction = {"kb_id": span.kb_id_}
    if any(span._.kb_candidate_columns.get("correction", ())[:1]):
        return prediction  # a person decided
    if link.via is not None:
        prediction["kb_via"] = {name: getattr(link.via, name) for name in VIA}
    if link.id in ("", span.kb_id_):
        return prediction
    entity, others = kb[link.id], span._.kb_candidates
    first = next((each for each in others if each["id"] == link.id), None)
    if first is None:
        rows, _ = kb.rows([kb.number(link.id)])
        score = float((rows @ link.vector).max()) if len(rows) else None  # the retriever's
        named = {"id": link.id, "name": entity.canonical_name, "score": score}
        first = {**dict.fromkeys(span._.kb_candidate_columns), **named}
    candidates = [first, *(each for each in others if each["id"] != link.id)]
    ents = [(link.id, first["score"]), *(pair for pair in span._.kb_ents if pair[0] != link.id)]
    prediction |= {
        "kb_id": link.id,
        "kb_score": first["score"],
        "kb_probability": None,
        "kb_candidates": candidates[: max(1, len(others))],
        "kb_ents": ents[: max(1, len(span._.kb_ents))],
        "kb_types": list(entity.types),
    }
    if vocabularies:
        prediction["kb_xrefs"] = {v: list(entity.codes(v)) for v in vocabularies}
    return prediction
