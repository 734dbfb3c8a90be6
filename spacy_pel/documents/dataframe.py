"""Linked documents as a pandas DataFrame. pandas is needed here alone, and is not installed with us."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from spacy.tokens import Doc

from ..errors import PelError
from .linked import linked_document

if TYPE_CHECKING:
    import pandas

_OF_A_MENTION = (
    *("start", "end", "text", "label", "id", "name"),
    *("score", "probability", "types", "candidates"),
)


def to_dataframe(
    documents: Iterable[Doc | dict[str, Any]], spans_key: str | None = None
) -> pandas.DataFrame:
    """A table with one mention a row, and the columns of ``pel link``'s Parquet.

    Types, candidates, and codes of a vocabulary are lists: ``table.explode("ICD10CM")`` parts them.

    Args:
        documents: Linked Docs, or records of ``pel link``'s JSONL. A document without an id is
            known by its number, from 1.
        spans_key: Where the mentions of Docs are: ``doc.spans[spans_key]``, or ``doc.ents`` if None.

    Raises:
        PelError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise PelError("pandas is not installed", "run: pip install pandas") from error
    rows: list[dict[str, Any]] = []
    for number, given in enumerate(documents, start=1):
        document = linked_document(given, spans_key) if isinstance(given, Doc) else given
        id = str(document.get("id", number))
        for mention in document["mentions"]:
            codes = mention.get("xrefs", {})
            rows.append({"document": id, **{c: mention.get(c) for c in _OF_A_MENTION}, **codes})
    return pandas.DataFrame(rows, columns=None if rows else ["document", *_OF_A_MENTION])
