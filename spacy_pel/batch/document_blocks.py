"""Process documents block by block.

The input alone determines which documents a block has, so any number of workers makes the same blocks.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..corpora.formats.base import DocumentFile
from ..corpora.open_documents import DocumentStream, RawDocument
from ..errors import PelError
from ..io.whole_files import to_disk
from .blocks import Blocks, block_folder
from .workers import local_results

logger = logging.getLogger(__name__)

# Smaller files, such as one-page notes, are read together up to this size.
BYTES_PER_GROUP = 4 * 2**20
MAX_SHOWN = 3  # omitted mentions that a message quotes


class OnError(str, Enum):
    """How to treat a bad document: ``stop`` ends the run, ``skip`` reports the document and continues."""

    stop = "stop"
    skip = "skip"


class NoBar:
    """An invisible progress bar, with the part of tqdm's interface that this package uses."""

    def __init__(self, **settings: object) -> None: ...

    def __enter__(self) -> NoBar:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def update(self, n: int = 1) -> None: ...

    def set_postfix_str(self, text: str, refresh: bool) -> None: ...


class LinkedCounts(NamedTuple):
    """The numbers of linked documents and mentions."""

    documents: int = 0
    mentions: int = 0
    skipped: tuple[str, ...] = ()  # a message for each document that could not be linked
    n_left_out: int = 0  # mentions in the input that are not in the text
    left_out: tuple[str, ...] = ()  # messages for the first of these

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> LinkedCounts:
        """Return the counts from plain data, in which tuples are lists."""
        documents, mentions, skipped, n_left_out, left_out = data
        return cls(documents, mentions, tuple(skipped), n_left_out, tuple(left_out))

    @staticmethod
    def total(counts: Iterable[LinkedCounts]) -> LinkedCounts:
        """Return the sum of counts, with the first messages about omitted mentions."""
        counts = list(counts)
        left_out = (message for part in counts for message in part.left_out)
        return LinkedCounts(
            sum(part.documents for part in counts),
            sum(part.mentions for part in counts),
            tuple(message for part in counts for message in part.skipped),
            sum(part.n_left_out for part in counts),
            tuple(islice(left_out, MAX_SHOWN)),
        )


class DocumentBlock(NamedTuple):
    """Consecutive documents."""

    name: str  # of its file, without suffix
    first: int  # number of the first document, from 1
    records: tuple[RawDocument, ...]
    n_bytes: int  # of the input
    digest: str  # of the documents


class BlockSize(NamedTuple):
    """A block ends after this many documents, or bytes of them."""

    n_documents: int
    n_bytes: int


def document_blocks(
    source: DocumentStream, n_documents: int, n_bytes: int, prefix: str = ""
) -> Iterator[DocumentBlock]:
    """Yield the documents of a stream in blocks of at most ``n_documents``, or about ``n_bytes``.

    The name of a block is the prefix and the number of its first document.
    """
    first, position, size = 1, 0, 0
    records: list[RawDocument] = []
    hash = hashlib.blake2b(digest_size=16)

    def block() -> DocumentBlock:
        n_read = source.position - position
        name = f"{prefix}{first:08d}"
        return DocumentBlock(name, first, tuple(records), n_read, hash.hexdigest())

    for record in source:
        records.append(record)
        packed = record.packed
        hash.update(packed)
        size += len(packed)
        if len(records) == n_documents or size >= n_bytes:
            yield block()
            first, position, size = first + len(records), source.position, 0
            records = []
            hash = hashlib.blake2b(digest_size=16)
    if records:
        yield block()


def blocks_by_file(
    source: DocumentStream, input: str, n_documents: int, n_bytes: int
) -> Iterator[DocumentBlock]:
    """Yield the documents in blocks that are named after their files, so that new files rename no blocks.

    Consecutive small files share a block with the name of the first. A large file has its own blocks. If
    ``input`` is a file, its blocks have its name without the folder.
    """
    groups: list[list[DocumentFile]] = []
    size = 0
    for file in source.files:
        if not groups or size + (file.size or 0) > BYTES_PER_GROUP:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size or 0
    for group in groups:
        name = group[0].name if group[0].name != input else Path(input).name
        yield from document_blocks(DocumentStream(group), n_documents, n_bytes, f"{name}-")


# Reports a number of finished documents, and their bytes of input.
ReportDone = Callable[[int, int], object]
# Writes a block to a file, and reports its documents.
WriteBlock = Callable[[DocumentBlock, Path, ReportDone], LinkedCounts]
# The name of a block, and its counts.
BlockResult = tuple[str, LinkedCounts]
BlockResults = Generator[BlockResult, None, None]


def ignore_done(documents: int, n_bytes: int) -> None:
    """Ignore the report of finished documents."""


def block_worker(
    blocks: Blocks, write: WriteBlock, done: ReportDone = ignore_done
) -> Callable[[DocumentBlock], BlockResult]:
    """Return a worker that writes a document block and stores it among the finished ones."""

    def work(block: DocumentBlock) -> BlockResult:
        counts = blocks.write(block.name, lambda path: write(block, path, done), block.digest)
        return block.name, counts

    return work


class BlockJob(NamedTuple):
    """A job on documents, block by block."""

    write: WriteBlock
    n_process: int = 1
    on_error: OnError = OnError.stop
    # Makes a progress bar like ``tqdm`` from ``total``, in bytes.
    progress: Callable[..., Any] = NoBar

    def run(
        self,
        blocks: Blocks,
        document_blocks: Iterable[DocumentBlock],
        total: int | None,
        results: Callable[[Iterable[DocumentBlock]], BlockResults] | None = None,
        on_block: Callable[[str], object] = lambda name: None,
    ) -> dict[str, LinkedCounts]:
        """Write the missing blocks, and return the counts of all blocks by name, in the order of the input.

        A finished block with bad documents is written again if these end the run, to raise the error.

        Args:
            blocks: The finished blocks.
            document_blocks: The blocks of the input.
            total: The bytes of the input; None if unknown.
            results: Makes blocks, in any order. None: processes of this computer. A single one reports
                progress after each document, the others after each block.
            on_block: Called with the name of each new block.
        """
        counts: dict[str, LinkedCounts] = {}
        sizes: dict[str, int] = {}
        n_done = 0

        def done(documents: int, n_bytes: int) -> None:
            nonlocal n_done
            n_done += documents
            bar.set_postfix_str(f"{n_done:,} documents", refresh=False)
            bar.update(n_bytes)

        def unfinished() -> Iterator[DocumentBlock]:
            n_before = 0
            for block in document_blocks:
                data = blocks.result(block.name, block.digest)
                stored = None if data is None else LinkedCounts.from_data(data)
                if stored and not (stored.skipped and self.on_error is OnError.stop):
                    counts[block.name] = stored
                    n_before += stored.documents + len(stored.skipped)
                    done(stored.documents, block.n_bytes)
                    continue
                if not sizes and n_before:
                    logger.info("Resuming after %s finished documents", f"{n_before:,}")
                counts[block.name], sizes[block.name] = LinkedCounts(), block.n_bytes
                yield block

        is_by_document = self.n_process == 1 and results is None
        if results is None:
            work = block_worker(blocks, self.write, done if is_by_document else ignore_done)
            results = partial(local_results, work, n_process=self.n_process)
        with self.progress(total=total) as bar, closing(results(unfinished())) as new:
            for name, block_counts in new:
                counts[name] = block_counts
                if not is_by_document:
                    done(block_counts.documents, sizes[name])
                for message in block_counts.skipped:
                    logger.warning("Skipped %s", message)
                on_block(name)
        whole = LinkedCounts.total(counts.values())
        if whole.n_left_out:
            logger.warning(
                "Left out %s mentions that are not in the text as the input says: %s",
                f"{whole.n_left_out:,}",
                " | ".join(whole.left_out),
            )
        return counts

    def to_file(
        self,
        source: DocumentStream,
        target: Path,
        settings: dict[str, Any],
        block_size: BlockSize,
        join: Callable[[Sequence[Path], Path], object],
    ) -> LinkedCounts:
        """Make a file from a stream. Until it is complete, its blocks are in a folder next to it.

        The file is replaced atomically. After an error or an interruption it is unchanged, and the next call
        resumes after the finished blocks.

        Args:
            source: The documents.
            target: The file.
            settings: Everything except the documents that determines the content of blocks, as plain data.
            block_size: The size of the blocks.
            join: Makes the file at a path from the files of the blocks. It may leave other files in the
                folder of the path; they are removed.
        """
        if target.exists() and not target.is_file():
            raise PelError(f"{target}: is a folder or a device", "give the path of a file")
        folder = target.with_name(f"{target.name}.parts")
        settings = {**settings, "size of parts": block_size}
        with block_folder(folder, settings, restart=True) as blocks:
            counts = self.run(blocks, document_blocks(source, *block_size), source.total)

            def write(path: Path) -> str:
                join([blocks.path(name) for name in counts], path)
                return target.name

            blocks.write("joined", write)
            blocks.path("joined").replace(target)
            to_disk(target.parent)
            blocks.remove()
        return LinkedCounts.total(counts.values())


def refusal(number: int, error: PelError, on_error: OnError) -> str:
    """Return the message for a skipped document, or raise the error if it ends the run."""
    placed = error.at(f"document {number:,}")
    if on_error is OnError.stop:
        remedy = f"{placed.remedy}, or leave it out with --on-error skip"
        raise PelError(placed.problem, remedy) from error
    return str(placed)
