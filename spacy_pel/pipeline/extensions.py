"""The attributes that linked spans carry: plain data, so that they survive DocBin and processes."""

from __future__ import annotations

from spacy.tokens import Span

from ..training.corpus import NIL


def install_extensions() -> None:
    """Add ``kb_id``, ``kb_score``, ``kb_probability``, ``kb_candidates``, ``kb_ents`` to spans.

    Attributes of these names that others have added are left as they are.
    """
    defaults = {"kb_id": None, "kb_score": None, "kb_probability": None, "kb_candidates": []}
    for name, default in defaults.items():
        if not Span.has_extension(name):
            Span.set_extension(name, default=default)
    if not Span.has_extension("kb_ents"):
        Span.set_extension("kb_ents", getter=_kb_ents)


def _kb_ents(span: Span) -> list[tuple[str, float]]:
    """scispaCy's view of the candidates: (id, score), best first; none if they are rejected."""
    if span._.kb_id == NIL:
        return []
    return [(candidate["id"], candidate["score"]) for candidate in span._.kb_candidates]
