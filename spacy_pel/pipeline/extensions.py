"""The attributes of linked spans: plain data, which can be saved and sent to other processes."""

from __future__ import annotations

from typing import Any

from spacy.tokens import Span

# What is None before linking, or without the setting that asks for it.
_SINGLE = ("kb_id", "kb_score", "kb_probability", "kb_xrefs", "kb_vector", "kb_via")
# The candidates of a mention: from the name of a column to its values, one for each candidate.
Columns = dict[str, list]


def install_extensions() -> None:
    """Add to spans ``kb_id``, ``kb_types`` and the other attributes that linking writes.

    Candidates are kept as ``kb_candidate_columns``. A dictionary for each candidate would take four
    times the memory, and a tenth of the time of a fast linker.

    An attribute that has been added before is left as it is. scispaCy's linker adds ``kb_ents`` in
    the same way: if both linkers are in a pipeline, it holds what the last of them wrote.
    """
    defaults: dict[str, Any] = dict.fromkeys(_SINGLE)
    containers = {"kb_candidate_columns": {}, "kb_ents": [], "kb_types": []}
    for name, default in {**defaults, **containers}.items():
        if not Span.has_extension(name):
            Span.set_extension(name, default=default)
    if not Span.has_extension("kb_candidates"):
        Span.set_extension("kb_candidates", getter=_candidates, setter=_set_candidates)


def _candidates(span: Span) -> list[dict[str, Any]]:
    """A dictionary for each candidate, made at each call."""
    columns = span._.kb_candidate_columns
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def _set_candidates(span: Span, candidates: list[dict[str, Any]]) -> None:
    names = candidates[0] if candidates else ()
    span._.kb_candidate_columns = {name: [c[name] for c in candidates] for name in names}
