"""The attributes that linked spans carry: plain data, so that they survive DocBin and processes."""

from __future__ import annotations

from typing import Any

from spacy.tokens import Span

# What is said of the candidates of a mention, by its name: a list of one value a candidate.
Columns = dict[str, list]


def install_extensions() -> None:
    """Add ``kb_id``, ``kb_score``, ``kb_probability``, ``kb_candidates``, ``kb_ents`` to spans.

    Candidates are kept as ``kb_candidate_columns``: a dictionary a candidate would take four times
    the memory, and of a fast linker's time a tenth.

    Attributes of these names that others have added are left as they are. scispaCy's linker adds
    ``kb_ents`` just so: where both are in a pipeline, it holds what the last of them has written.
    """
    defaults: dict[str, Any] = {"kb_id": None, "kb_score": None, "kb_probability": None}
    containers = {"kb_candidate_columns": {}, "kb_ents": []}
    for name, default in {**defaults, **containers}.items():
        if not Span.has_extension(name):
            Span.set_extension(name, default=default)
    if not Span.has_extension("kb_candidates"):
        Span.set_extension("kb_candidates", getter=_candidates, setter=_set_candidates)


def _candidates(span: Span) -> list[dict[str, Any]]:
    """A dictionary a candidate, made anew each time."""
    columns = span._.kb_candidate_columns
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def _set_candidates(span: Span, candidates: list[dict[str, Any]]) -> None:
    names = candidates[0] if candidates else ()
    span._.kb_candidate_columns = {name: [c[name] for c in candidates] for name in names}
