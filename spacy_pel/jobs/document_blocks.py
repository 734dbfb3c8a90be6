"""Blocks: documents that follow one another in the input, which become one file of the output.

Which documents a block holds is decided by the input alone, not by who links it, nor by how many do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..documents import RawDocument
from ..documents.document_files import DocumentFile, FileStream
from .document_batches import DocumentBatch, document_batches
from .output_parts import LinkedCounts, documents_digest

# Smaller files, such as notes of a page, are read together until they have so many bytes.
BYTES_PER_GROUP = 4 * 2**20


@dataclass(frozen=True)
class FileGroup:
    """A large file, or small ones that follow one another: they are read by one process.

    Attributes:
        name: What its blocks are named for: the name of the first file.
        files: The files.
    """

    name: str
    files: tuple[DocumentFile, ...]


@dataclass(frozen=True)
class Block:
    """Documents that follow one another.

    Attributes:
        name: The name of the group, and the number of the first document in it.
        first: This number, from 1.
        records: The documents.
        n_bytes: The bytes of input that they took.
        digest: A digest of the documents.
    """

    name: str
    first: int
    records: tuple[RawDocument, ...]
    n_bytes: int
    digest: str

    @property
    def batch(self) -> DocumentBatch:
        """The documents as they are linked."""
        return DocumentBatch(list(self.records), self.n_bytes)


@dataclass(frozen=True)
class BlockReport:
    """What has become of a block.

    Attributes:
        name: The name of the block.
        n_bytes: The bytes of input that its documents took.
        counts: What was linked.
        is_new: Whether it was linked now, and not by an earlier run.
        problem: What went wrong, if anything; see ``PelError``.
        remedy: What to do about it.
    """

    name: str
    n_bytes: int = 0
    counts: LinkedCounts = LinkedCounts()
    is_new: bool = True
    problem: str = ""
    remedy: str = ""


def file_groups(files: Sequence[DocumentFile], given: str) -> Iterator[FileGroup]:
    """The files of an input in groups, in their order.

    Args:
        files: The files.
        given: The input. A file that was given alone has this name; its group has the last part.
    """
    group: list[DocumentFile] = []
    size = 0
    for file in files:
        if group and size + (file.size or 0) > BYTES_PER_GROUP:
            yield _group(group, given)
            group, size = [], 0
        group.append(file)
        size += file.size or 0
    if group:
        yield _group(group, given)


def _group(files: Sequence[DocumentFile], given: str) -> FileGroup:
    name = files[0].name
    return FileGroup(Path(name).name if name == given else name, tuple(files))


def blocks_of(group: FileGroup, n_documents: int, n_bytes: int) -> Iterator[Block]:
    """The blocks of a group; one ends after this many documents, or bytes of them."""
    first = 1
    for batch in document_batches(FileStream(list(group.files)), n_documents, n_bytes):
        name = f"{group.name}-{first:08d}"
        records = tuple(batch.records)
        yield Block(name, first, records, batch.n_bytes, documents_digest(records))
        first += len(records)
