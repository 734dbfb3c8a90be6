"""Blocks of documents, what is known of each, and who hears how far a job has come.

Which documents a block holds is decided by the input alone, not by who works on it, nor by how many do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from ..documents import DocumentStream, RawDocument
from ..documents.document_stream import DocumentFile
from ..errors import PelError
from .blocks import Blocks, join, output_blocks
from .workers import Done, Worker, local_results

# Smaller files, such as notes of a page, are read together until they have so many bytes.
BYTES_PER_GROUP = 4 * 2**20


class OnError(str, Enum):
    """What happens at a bad document: ``stop`` ends the run, ``skip`` reports it and goes on."""

    stop = "stop"
    skip = "skip"


class LinkProgress:
    """Receives the progress of a job. Its methods do nothing: override those that you need."""

    def started(self, n_bytes: int | None) -> None:
        """It begins. The input has ``n_bytes`` bytes; None: unknown, as for stdin."""

    def passed_over(self, documents: int, n_bytes: int) -> None:
        """An earlier run did this number of documents, from ``n_bytes`` bytes of input."""

    def linked(self, n_bytes: float) -> None:
        """One more document is done, from ``n_bytes`` bytes of input."""

    def say(self, message: str) -> None:
        """Something the user should know, in one line."""


class LinkedCounts(NamedTuple):
    """What was linked."""

    documents: int = 0
    mentions: int = 0  # of these documents
    skipped: tuple[str, ...] = ()  # a message for each document that could not be linked

    def __add__(self, other: LinkedCounts) -> LinkedCounts:  # type: ignore[override]
        return LinkedCounts(*(mine + others for mine, others in zip(self, other)))


@dataclass(frozen=True)
class DocumentBlock:
    """Documents that follow one another."""

    name: str  # what its file is named for
    first: int  # the number of its first document, from 1
    records: tuple[RawDocument, ...]
    n_bytes: int  # of input that they took
    digest: str  # of the documents


@dataclass(frozen=True)
class BlockReport:
    """What has become of a block."""

    name: str
    n_bytes: int  # of input that its documents took
    counts: LinkedCounts
    is_new: bool = True  # linked now, and not by an earlier run
    is_told: bool = False  # whether a progress was told of its documents while they were linked

    def tell(self, progress: LinkProgress) -> None:
        """Tell a progress of the rest of the block."""
        documents = self.counts.documents
        if not self.is_new:
            progress.passed_over(documents, self.n_bytes)
            return
        for _ in range(0 if self.is_told else documents):
            progress.linked(self.n_bytes / documents)
        for message in self.counts.skipped:
            progress.say(f"Skipped {message}")


def document_blocks(
    source: DocumentStream, n_documents: int, n_bytes: int, prefix: str = ""
) -> Iterator[DocumentBlock]:
    """The documents of a stream in blocks; one ends after this many documents, or bytes of them.

    The name of a block is the prefix and the number of its first document.
    """
    first, position = 1, 0
    size, records = 0, []
    hash = hashlib.blake2b(digest_size=16)

    def block() -> DocumentBlock:
        taken = source.position - position
        return DocumentBlock(f"{prefix}{first:08d}", first, tuple(records), taken, hash.hexdigest())

    for record in source:
        records.append(record)
        packed = record.packed
        hash.update(packed)
        size += len(packed)
        if len(records) == n_documents or size >= n_bytes:
            yield block()
            first, position = first + len(records), source.position
            size, records = 0, []
            hash = hashlib.blake2b(digest_size=16)
    if records:
        yield block()


def unfinished(
    found: Iterable[DocumentBlock],
    blocks: Blocks,
    on_error: OnError,
    say: Callable[[str], object] | None = None,
    done: str = "linked",
) -> Iterator[DocumentBlock | Done]:
    """The blocks that are to be made, and reports of those that an earlier run has made.

    One with bad documents is made again if they stop the run, to say why.

    ``say`` is told where an earlier run goes on, that is, what was ``done`` to how many documents, and
    whether the input has changed since.
    """
    before = 0
    for block in found:
        stored: Any = blocks.finished(block.name, block.digest)
        if stored is not None and not (stored[2] and on_error is OnError.stop):
            documents, mentions, skipped = stored
            before += documents + len(skipped)
            counts = LinkedCounts(documents, mentions, tuple(skipped))
            yield Done(BlockReport(block.name, block.n_bytes, counts, is_new=False))
            continue
        if say and blocks.is_changed:
            say(f"The input has changed from about document {before + 1:,} on")
        if say and before:
            say(f"Going on after {before:,} documents that were {done} before")
        say = None
        yield block


# Writes a block to a file, and tells a progress of its documents.
Write = Callable[[DocumentBlock, Path, LinkProgress], LinkedCounts]


def worker_that_writes(
    blocks: Blocks, write: Write, progress: LinkProgress | None = None
) -> Callable[[DocumentBlock], BlockReport]:
    """What makes and keeps a block, and tells a progress of its documents."""

    def work(block: DocumentBlock) -> BlockReport:
        def write_block(path: Path) -> LinkedCounts:
            return write(block, path, progress or LinkProgress())

        counts = blocks.write(block.name, write_block, block.digest)
        return BlockReport(block.name, block.n_bytes, counts, is_told=progress is not None)

    return work


def blocks_made(
    blocks: Blocks,
    write: Write,
    items: Iterable[DocumentBlock | Done],
    n_process: int,
    progress: LinkProgress,
) -> Iterator[BlockReport]:
    """Make and keep blocks, in processes; their reports, in their order.

    One process tells a progress of each document. Of several it is told block by block.
    """
    each = progress if n_process == 1 else None

    def make(device: str) -> Worker:
        return worker_that_writes(blocks, write, each)

    with closing(local_results(make, items, ["cpu"] * n_process)) as reports:
        for report in reports:
            report.tell(progress)
            yield report


def blocks_to_file(
    source: DocumentStream,
    target: Path,
    settings: dict[str, Any],
    write: Write,
    make_file: Callable[[Sequence[Path], Path], object],
    *,
    size: tuple[int, int],
    n_process: int,
    on_error: OnError,
    progress: LinkProgress,
    done: str = "linked",
) -> LinkedCounts:
    """Do a job on documents block by block, and make a file of the blocks.

    The file appears as a whole at the end. After an error or an interruption it is as it was before,
    and the next call goes on after the blocks that are finished.

    Args:
        settings: All that decides what is in the blocks, apart from the documents, as plain data.
        make_file: Makes the file, see ``join``.
        size: A block ends after this many documents, or bytes of them.
        done: What the job does to documents, for messages.
    """
    progress.started(source.total)
    total, names = LinkedCounts(), []
    with output_blocks(target, {**settings, "size of parts": size}, progress.say) as blocks:
        items = unfinished(document_blocks(source, *size), blocks, on_error, progress.say, done)
        for report in blocks_made(blocks, write, items, n_process, progress):
            total += report.counts
            names.append(report.name)
        join(blocks, names, make_file, target)
    return total


def file_groups(
    files: Sequence[DocumentFile], given: str
) -> list[tuple[str, tuple[DocumentFile, ...]]]:
    """The files of an input in groups that one process reads, in their order, with their names.

    A group is a large file, or small ones that follow one another. It has the name of its first file.
    A file that was ``given`` alone has the name of the input; its group has the last part of it.
    """
    groups: list[list[DocumentFile]] = []
    size = 0
    for file in files:
        if not groups or size + (file.size or 0) > BYTES_PER_GROUP:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size or 0
    names = [group[0].name for group in groups]
    return [
        (Path(name).name if name == given else name, tuple(group))
        for name, group in zip(names, groups)
    ]


def refusal(number: int, error: PelError, on_error: OnError) -> str:
    """The message for a bad document that is skipped; the error is raised if it ends the run."""
    placed = error.at(f"document {number:,}")
    if on_error is OnError.stop:
        remedy = f"{placed.remedy}, or leave it out with --on-error skip"
        raise PelError(placed.problem, remedy) from error
    return str(placed)
