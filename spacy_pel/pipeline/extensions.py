"""The attributes that linked spans carry: plain data, so that they survive DocBin and processes."""

from __future__ import annotations

from spacy.tokens import Span


def install_extensions() -> None:
    """Add ``kb_id``, ``kb_score``, ``kb_probability``, ``kb_candidates``, ``kb_ents`` to spans.

    Attributes of these names that others have added are left as they are. scispaCy's linker adds
    ``kb_ents`` just so: where both are in a pipeline, it holds what the last of them has written.
    """
    defaults = {"kb_id": None, "kb_score": None, "kb_probability": None}
    lists = {"kb_candidates": [], "kb_ents": []}
    for name, default in {**defaults, **lists}.items():
        if not Span.has_extension(name):
            Span.set_extension(name, default=default)
