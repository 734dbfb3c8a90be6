"""Read linked mentions from a Doc for joint linking, and write its results back."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc, Span

from ..kb.knowledge_base import KnowledgeBase
from ..spans import NIL, mention_spans
from .annotations import Prediction, write_predictions

# The facts about the mention through which another one has its entity (``kb_via``).
VIA = ("document", "start", "end", "text")


class CorpusMention(NamedTuple):
    """A mention that was linked by itself, as plain data."""

    document: str  # the id or the number of its document
    start: int  # its first character
    end: int  # the character after its last
    text: str  # the characters between them
    label: str
    id: str  # of its entity; "" for NIL
    # That its best candidate is correct, even if it is NIL; 1 for an id that was given, 0 without candidates.
    probability: float


class JointLink(NamedTuple):
    """The result of joint linking for a mention."""

    id: str  # of its entity; "" for NIL
    via: CorpusMention | None  # the mention through which it has its entity; None: by itself
    vector: np.ndarray  # float32 [d]


def take_mentions(
    doc: Doc, document: str, spans_key: str | None
) -> tuple[list[CorpusMention], np.ndarray]:
    """Return the mentions of a linked Doc and their vectors, float32 [n, d], and remove the vectors from it.

    The Doc was linked with the setting ``vectors``. ``document`` is its id or its number.
    """
    spans = mention_spans(doc, spans_key)
    vectors = [span._.kb_vector for span in spans]
    for key in [key for key in doc.user_data if tuple(key[:2]) == ("._.", "kb_vector")]:
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
    """Write the results of joint linking on the mentions of a Doc that were linked one by one.

    A mention that gets another entity has this as its first candidate. It has no probability, because
    probabilities are fitted to mentions that are linked one by one. ``vocabularies`` are the vocabularies
    whose codes are written.
    """
    spans = mention_spans(doc, spans_key)
    if any(link.via is not None for link in links):
        changes = (_prediction(span, link, kb, vocabularies) for span, link in zip(spans, links))
        write_predictions([doc], [spans], changes, spans_key, overwrite=True)


def _prediction(
    span: Span, link: JointLink, kb: KnowledgeBase, vocabularies: Sequence[str]
) -> Prediction:
    """Return the attributes of a mention that change."""
    prediction: Prediction = {"kb_id": span.kb_id_}
    if any(span._.kb_candidate_columns.get("correction", ())[:1]):
        return prediction  # the decision of a person stays
    if link.via is not None:
        prediction["kb_via"] = {name: getattr(link.via, name) for name in VIA}
    if link.id in ("", span.kb_id_):
        return prediction
    entity, others = kb[link.id], span._.kb_candidates
    first = next((candidate for candidate in others if candidate["id"] == link.id), None)
    if first is None:
        number = kb.number(link.id)
        assert number is not None  # the KB has the entity
        rows, _ = kb.rows([number])
        score = float((rows @ link.vector).max()) if len(rows) else None  # the retriever's
        values = {"id": link.id, "name": entity.canonical_name, "score": score}
        first = {**dict.fromkeys(span._.kb_candidate_columns), **values}
    candidates = [first, *(candidate for candidate in others if candidate["id"] != link.id)]
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
