"""Rows of OMOP's table NOTE_NLP (CDM 5.4), as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...about import __version__
from ..doc_conversion import linked_mentions, plain_text
from .base import Format, TextOutput, document_id, encoded
from .tables import csv_line

if TYPE_CHECKING:
    from spacy.tokens import Doc

COLUMNS = (
    *("note_nlp_id", "note_id", "section_concept_id", "snippet", "offset", "lexical_variant"),
    *("note_nlp_concept_id", "note_nlp_source_concept_id", "nlp_system", "nlp_date"),
    *("nlp_datetime", "term_exists", "term_temporal", "term_modifiers"),
)
# The attributes of negated mentions of negspacy and of medspacy.
NEGATIONS = ("negex", "is_negated")
VOCABULARY = "OMOP"  # of codes that are concept ids
_UNKNOWN = 0  # a missing concept id
_CONTEXT = 80  # characters of a snippet before and after a mention
_MAX_TEXT, _MAX_MODIFIERS = 250, 2000  # characters of a text in the table


def is_negated(mention: dict[str, Any]) -> bool | None:
    """Return whether a mention is negated, or None if it has no attribute of negation."""
    attributes = mention.get("attributes", {})
    values = [bool(attributes[name]) for name in NEGATIONS if name in attributes]
    return any(values) if values else None


def _text(number: int, doc: Doc, spans_key: str | None) -> str:
    """Return a line for each mention, without the number of the row."""
    text = doc.text
    return "".join(
        csv_line(",", [*_row(document_id(number, doc), text, mention).values()][1:])
        for mention in linked_mentions(doc, spans_key)
    )


def _row(document: str, text: str, mention: dict[str, Any]) -> dict[str, Any]:
    start, end = mention["start"], mention["end"]
    snippet = text[max(0, start - _CONTEXT) : end + _CONTEXT]
    probability = mention["probability"]
    modifiers = {"id": mention["id"], "probability": probability and round(probability, 4)}
    modifiers |= mention.get("attributes", {})
    pairs = [
        f"{name}={plain_text(value)}" for name, value in modifiers.items() if value is not None
    ]
    codes = mention.get("xrefs", {}).get(VOCABULARY, ())
    exists = {None: "", True: "N", False: "Y"}[is_negated(mention)]
    return dict.fromkeys(COLUMNS, "") | {
        "note_id": _one_line(document),
        "section_concept_id": _UNKNOWN,
        "snippet": _one_line(snippet)[:_MAX_TEXT],
        "offset": start,
        "lexical_variant": _one_line(mention["text"])[:_MAX_TEXT],
        "note_nlp_concept_id": next(iter(codes), _UNKNOWN),
        "note_nlp_source_concept_id": _UNKNOWN,
        "nlp_system": f"spacy_pel {__version__}",
        "term_exists": exists,
        "term_modifiers": _one_line(",".join(pairs))[:_MAX_MODIFIERS],
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _Rows(TextOutput):
    """Rows whose numbers are added when the parts are joined."""

    def join(self, parts: Sequence[Path], path: Path) -> None:
        number = 0
        with path.open("wb") as file:
            file.write(encoded(self.head))
            for part in parts:
                with part.open("rb") as rows:
                    for row in rows:
                        number += 1
                        file.write(b"%d," % number + row)


FORMAT = Format("omop", (".note_nlp.csv",), output=_Rows(_text, csv_line(",", COLUMNS)))
