"""A stream of documents in batches, each of which becomes a part of an output file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..documents import DocumentStream, RawDocument


class DocumentBatch(NamedTuple):
    """Documents that follow one another.

    Attributes:
        records: The documents.
        n_bytes: The bytes of input that they took.
    """

    records: list[RawDocument]
    n_bytes: int


def document_batches(
    source: DocumentStream, n_documents: int, n_bytes: int
) -> Iterator[DocumentBatch]:
    """The documents of a stream; a batch ends after this many documents, or bytes of them."""
    records: list[RawDocument] = []
    size = position = 0
    for record in source:
        records.append(record)
        size += len(record.packed)
        if len(records) == n_documents or size >= n_bytes:
            yield DocumentBatch(records, source.position - position)
            records, size, position = [], 0, source.position
    if records:
        yield DocumentBatch(records, source.position - position)
