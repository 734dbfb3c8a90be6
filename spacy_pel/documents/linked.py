"""A linked Doc as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..spans import NIL, mention_spans

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span


def linked_document(doc: Doc, spans_key: str | None) -> dict[str, Any]:
    """A Doc as {"id", "text", "mentions"}.

    Args:
        doc: The Doc. Its id is ``doc.user_data["id"]``; without it there is no "id".
        spans_key: Where its mentions are: ``doc.spans[spans_key]``, or ``doc.ents`` if None.
    """
    id = {"id": doc.user_data["id"]} if "id" in doc.user_data else {}
    return {**id, "text": doc.text, "mentions": linked_mentions(doc, spans_key)}


def linked_mentions(doc: Doc, spans_key: str | None) -> list[dict[str, Any]]:
    """The mentions of a Doc; see ``linked_document``.

    Each has "start", "end" (characters), "text", "label", "id", "name", "types", "score",
    "probability" and "candidates", which are best first, as many as the linker is set to. "xrefs" is
    there if the linker has that setting: for each vocabulary a list of codes. "via" is there if the
    mention has its entity through another one (``jobs.joint_linking``).
    """
    return [_linked_mention(span) for span in mention_spans(doc, spans_key)]


def entity_id(mention: dict[str, Any]) -> str | None:
    """The id of the entity that a mention is linked to; None if it is NIL."""
    return None if mention["id"] in ("", NIL) else mention["id"]


def _linked_mention(span: Span) -> dict[str, Any]:
    candidates = span._.kb_candidates
    xrefs = {} if span._.kb_xrefs is None else {"xrefs": span._.kb_xrefs}
    via = {} if span._.kb_via is None else {"via": span._.kb_via}
    return {
        "start": span.start_char,
        "end": span.end_char,
        "text": span.text,
        "label": span.label_,
        "id": span.kb_id_,
        "name": next((c["name"] for c in candidates if c["id"] == span.kb_id_), None),
        "types": span._.kb_types,
        **xrefs,
        "score": span._.kb_score,
        "probability": span._.kb_probability,
        "candidates": candidates,
        **via,
    }
