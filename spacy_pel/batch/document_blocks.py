"""Jobs on documents, block by block.

Which documents a block holds is decided by the input alone, not by who works on it, nor by how many do.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..corpora import DocumentStream, RawDocument
from ..corpora.formats.base import DocumentFile
from ..errors import PelError
from ..io.whole_files import to_disk
from .blocks import Blocks, block_folder
from .workers import local_results

logger = logging.getLogger(__name__)

# Smaller files, such as notes of a page, are read together until they have so many bytes.
BYTES_PER_GROUP = 4 * 2**20


SHOWN = 3  # of the mentions that are left out


class OnError(str, Enum):
    """What happens at a bad document: ``stop`` ends the run, ``skip`` reports it and goes on."""

    stop = "stop"
    skip = "skip"


class NoBar:
    """A bar of progress that nobody sees: what a job uses of tqdm's."""

    def __init__(self, total: int | None, initial: int = 0) -> None: ...

    def __enter__(self) -> NoBar:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def update(self, n: int) -> None: ...

    def set_postfix_str(self, text: str, refresh: bool) -> None: ...


class LinkedCounts(NamedTuple):
    """What was linked."""

    documents: int = 0
    mentions: int = 0  # of these documents
    skipped: tuple[str, ...] = ()  # a message for each document that could not be linked
    # The number of given mentions that cannot be read, and a message for the first of them.
    n_left_out: int = 0
    left_out: tuple[str, ...] = ()

    def __add__(self, other: LinkedCounts) -> LinkedCounts:  # type: ignore[override]
        both = LinkedCounts(*(mine + others for mine, others in zip(self, other)))
        return both._replace(left_out=both.left_out[:SHOWN])


class DocumentBlock(NamedTuple):
    """Documents that follow one another."""

    name: str  # what its file is named for
    first: int  # the number of its first document, from 1
    records: tuple[RawDocument, ...]
    n_bytes: int  # of input that they took
    digest: str  # of the documents


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


def blocks_by_file(
    source: DocumentStream, given: str, n_documents: int, n_bytes: int
) -> Iterator[DocumentBlock]:
    """The documents in blocks named for their files, which do not change if other files are added.

    A large file has blocks of its own. Small ones that follow one another are read together, and
    named for the first. A file that was ``given`` alone is named for the last part of that.
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
        name = group[0].name if group[0].name != given else Path(given).name
        yield from document_blocks(DocumentStream(group), n_documents, n_bytes, f"{name}-")


# Is told how many more documents are done, and from how many bytes of input.
Done = Callable[[int, int], object]
# Writes a block to a file, and tells of its documents.
Write = Callable[[DocumentBlock, Path, Done], LinkedCounts]
Made = tuple[str, LinkedCounts]  # the name of a block, and what is in it


def keeper(
    blocks: Blocks, write: Write, done: Done = lambda documents, n_bytes: None
) -> Callable[[DocumentBlock], Made]:
    """What makes and keeps a block."""

    def work(block: DocumentBlock) -> Made:
        made = blocks.write(block.name, lambda path: write(block, path, done), block.digest)
        return block.name, made

    return work


class BlockJob(NamedTuple):
    """What is done to documents, block by block."""

    write: Write
    n_process: int = 1
    on_error: OnError = OnError.stop
    progress: Callable[..., Any] = NoBar  # makes a bar, as ``tqdm``, from ``total``, in bytes

    def run(
        self,
        blocks: Blocks,
        found: Iterable[DocumentBlock],
        total: int | None,
        results: Callable[[Iterable[DocumentBlock]], Iterator[Made]] | None = None,
        when_made: Callable[[str], object] = lambda name: None,
    ) -> dict[str, LinkedCounts]:
        """Make the blocks that are not there; give what is in each by name, in the order of ``found``.

        One with bad documents is made again if they stop the run, to say why.

        Args:
            total: The bytes of the input; None if that is not known.
            results: Makes and keeps blocks. None: processes of this computer do, in their order. One
                process tells the progress of each document. Of several it is told block by block.
            when_made: Called with the name of each block that was made.
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
            before = 0
            for block in found:
                stored: Any = blocks.finished(block.name, block.digest)
                if stored is not None and not (stored[2] and self.on_error is OnError.stop):
                    kept = (tuple(each) if isinstance(each, list) else each for each in stored)
                    own = counts[block.name] = LinkedCounts(*kept)
                    before += own.documents + len(own.skipped)
                    done(own.documents, block.n_bytes)
                    continue
                if not sizes and before:
                    logger.info("Going on after %s documents that were done before", f"{before:,}")
                counts[block.name], sizes[block.name] = LinkedCounts(), block.n_bytes
                yield block

        by_document = self.n_process == 1 and results is None
        if results is None:
            keep = keeper(blocks, self.write, *[done] * by_document)
            results = partial(local_results, keep, n_process=self.n_process)
        with self.progress(total=total) as bar, closing(results(unfinished())) as made:
            for name, own in made:
                counts[name] = own
                if not by_document:
                    done(own.documents, sizes[name])
                for message in own.skipped:
                    logger.warning("Skipped %s", message)
                when_made(name)
        whole = sum(counts.values(), LinkedCounts())
        if whole.n_left_out:
            said = "Left out %s mentions that are not in the text as the input says: %s"
            logger.warning(said, f"{whole.n_left_out:,}", " | ".join(whole.left_out))
        return counts

    def to_file(
        self,
        source: DocumentStream,
        target: Path,
        settings: dict[str, Any],
        size: tuple[int, int],
        make_file: Callable[[Sequence[Path], Path], object],
    ) -> LinkedCounts:
        """Make a file of the blocks of a stream, which are in a folder beside it until then.

        The file appears as a whole at the end. After an error or an interruption it is as it was
        before, and the next call goes on after the blocks that are finished.

        Args:
            settings: All that decides what is in the blocks, apart from the documents, as plain data.
            size: A block ends after this many documents, or bytes of them.
            make_file: Takes the files of the blocks and the path to write. It may leave other files
                in the folder of this path, which are removed.
        """
        if target.exists() and not target.is_file():
            raise PelError(f"{target}: is a folder or a device", "give the path of a file")
        folder = target.with_name(f"{target.name}.parts")
        settings = {**settings, "size of parts": size}
        with block_folder(folder, settings, restart=True) as blocks:
            counts = self.run(blocks, document_blocks(source, *size), source.total)

            def join(path: Path) -> str:
                make_file([blocks.path(name) for name in counts], path)
                return target.name

            blocks.write("joined", join)
            os.replace(blocks.path("joined"), target)
            to_disk(target.parent)
            blocks.remove()
        return sum(counts.values(), LinkedCounts())


def refusal(number: int, error: PelError, on_error: OnError) -> str:
    """The message for a bad document that is skipped; the error is raised if it ends the run."""
    placed = error.at(f"document {number:,}")
    if on_error is OnError.stop:
        remedy = f"{placed.remedy}, or leave it out with --on-error skip"
        raise PelError(placed.problem, remedy) from error
    return str(placed)
