"""Mentions of the entities of a knowledge base, mined from plain text: self-supervised mentions.

Source: KRISSBERT (Zhang et al. 2022), sections 3.1 and 3.5.
"""

from __future__ import annotations

import errno
import hashlib
import json
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..documents import DocumentStream, RawDocument, open_documents
from ..documents.document_stream import ChainedStream
from ..errors import PelError
from ..system.duckdb_session import duckdb_connection, duckdb_that_sorts, sql_literal, sql_path
from .bad_documents import OnError
from .document_batches import document_batches
from .interruptible_pipe import end_with_parent
from .link_files import LinkProgress
from .output_parts import (
    LinkedCounts,
    OutputParts,
    documents_digest,
    output_parts,
    say_where_it_goes_on,
)
from .sampled_mentions import MentionSearch, MinedMentions

T = TypeVar("T")
DOCUMENTS_PER_PART, BYTES_PER_PART = 50_000, 16 * 2**20
_LONGEST_ROW = 2**24  # bytes
_CHOSEN_BY = {"number": "BIGINT", "priority": "UBIGINT"}
_ROW = {
    **_CHOSEN_BY,
    "text": "VARCHAR",
    "id": "VARCHAR",
    "mentions": 'STRUCT("start" BIGINT, "end" BIGINT, id VARCHAR)[]',
    "source": "VARCHAR",
    "offset": "BIGINT",
    "name": "VARCHAR",
    "entity": "VARCHAR",
    "right": "BOOLEAN",
}


class MiningResult(NamedTuple):
    """What was mined.

    Attributes:
        documents: The number of documents that were searched.
        found: The number of mentions in them.
        kept: The number of mentions that were kept.
        entities: The number of their entities.
        judged: How many of those kept have exactly the characters of an annotation with an id.
        right: In how many of these the annotation means the entity.
        skipped: A message for each document that could not be read.
    """

    documents: int
    found: int
    kept: int
    entities: int
    judged: int
    right: int
    skipped: tuple[str, ...]


def mine_mentions(
    search: MentionSearch,
    texts: Sequence[str],
    output: str | Path,
    *,
    input_format: str | None = None,
    n_process: int = 1,
    progress: LinkProgress = LinkProgress(),
) -> MiningResult:
    """Write the mentions of entities that texts hold to a Parquet file, a sample of each entity's.

    A row is a document for training: "text", "id" and "mentions", as in JSONL. The text is the
    window around the mention. More columns say where it is from, and "right" whether an annotation
    of the source agrees. Rows of an entity stand together, entities in a random order. The same
    input gives the same rows, with any number of processes. A run that was interrupted goes on
    where it was, as ``link_files`` does.

    Args:
        search: What is searched, and how.
        texts: Names of documents, as ``open_documents`` takes them. Annotations are only used to
            tell which mentions are right.
        output: The file to write.
        input_format: The format of files. None: their names decide.
        n_process: The number of processes that search.
        progress: Receives the progress.

    Raises:
        PelError: Nothing can be read, the output is not named .parquet or is read itself, or a
            document is bad and ``search.on_error`` is "stop".
        OSError: A file cannot be read or written.
    """
    target = Path(output).resolve()
    if target.suffix != ".parquet":
        raise PelError(f"{output}: mentions are written as Parquet", "end its name in .parquet")
    if any(Path(text).resolve() in (target, *target.parents) for text in texts):
        raise PelError(f"{output}: is what is read, or in its folder", "write it somewhere else")
    source = ChainedStream([open_documents(text, input_format) for text in texts])
    progress.started(source.total)
    total = LinkedCounts()
    with output_parts(target, _settings(search), progress.say) as parts:
        n_parts = 0
        for counts in _Run(search, parts, n_process, progress).parts_of(source):
            total += counts
            n_parts += 1

        def join(paths: Sequence[Path], joined: Path) -> None:
            _join(paths, joined, search.per_entity)

        parts.join(n_parts, join, target)
    documents, found, skipped = total
    return MiningResult(documents, found, *_judged(target), skipped)


class _Job(NamedTuple):
    """A part of the input: what it gives is known, or will be."""

    number: int
    digest: str
    n_bytes: int
    known: LinkedCounts | None
    mined: Future[MinedMentions] | None


class _Run:
    """The parts of one run, in their order.

    Mentions of an entity that cannot be among those kept, since enough of lower priorities have
    been found before, are not written.
    """

    def __init__(
        self, search: MentionSearch, parts: OutputParts, n_process: int, progress: LinkProgress
    ) -> None:
        self.search = search
        self.parts = parts
        self.n_process = n_process
        self.progress = progress
        n_entities = int(search.kb.numbers().max(initial=-1)) + 1
        # The upper halves of the lowest priorities of each entity: of equal halves both are kept.
        shape = (n_entities, search.per_entity)
        self.lowest = np.full(shape, np.iinfo(np.uint32).max, np.uint32)

    def parts_of(self, source: DocumentStream) -> Iterator[LinkedCounts]:
        """Make the parts that are not there yet; the counts of each part."""
        total, is_going_on = LinkedCounts(), False
        for job in self._jobs(source):
            if job.known is not None:
                counts = job.known
                self._admitted(*_stored(self.parts.path(job.number)))
                self.progress.passed_over(counts.documents, job.n_bytes)
            else:
                if not is_going_on:
                    say = self.progress.say
                    say_where_it_goes_on(total, self.parts.is_changed, say, "searched")
                is_going_on = True
                counts = self._written(job)
            total += counts
            yield counts

    def _written(self, job: _Job) -> LinkedCounts:
        assert job.mined is not None
        try:
            mined = job.mined.result()
        except BrokenProcessPool as error:
            raise PelError(
                "a process that searches has ended, perhaps for lack of memory",
                "run it again with fewer processes: it goes on where it was",
            ) from error
        admitted = self._admitted(mined.numbers, mined.priorities)
        counts = LinkedCounts(mined.documents, mined.found, mined.skipped)

        def write(path: Path) -> LinkedCounts:
            with open(path, "w", encoding="utf8", errors="replace") as file:
                file.writelines(f"{mined.rows[place]}\n" for place in np.flatnonzero(admitted))
            return counts

        self.parts.write(job.number, job.digest, write)
        for message in mined.skipped:
            self.progress.say(f"Skipped {message}")
        for _ in range(mined.documents):
            self.progress.linked(job.n_bytes / mined.documents)
        return counts

    def _admitted(self, numbers: np.ndarray, priorities: np.ndarray) -> np.ndarray:
        """Which mentions may be among those kept; bool [n]. They are remembered."""
        halves = (priorities >> np.uint64(32)).astype(np.uint32)
        admitted = halves <= self.lowest[numbers].max(axis=1)
        order = np.argsort(numbers[admitted], kind="stable")
        entities, begins = np.unique(numbers[admitted][order], return_index=True)
        for entity, new in zip(entities, np.split(halves[admitted][order], begins[1:])):
            together = np.sort(np.concatenate((self.lowest[entity], new)))
            self.lowest[entity] = together[: self.search.per_entity]
        return admitted

    def _jobs(self, source: DocumentStream) -> Iterator[_Job]:
        """All parts, some of them under way."""
        pool: Executor = _InThisProcess()
        mined = self.search.mined
        if self.n_process > 1:
            pool = ProcessPoolExecutor(self.n_process, None, _begin, (self.search,))
            mined = _mined
        under_way: deque[_Job] = deque()
        try:
            for job in self._submitted(source, partial(pool.submit, mined)):
                under_way.append(job)
                if len(under_way) >= 2 * self.n_process:
                    yield under_way.popleft()
            yield from under_way
        finally:
            pool.shutdown(cancel_futures=True)

    def _submitted(
        self, source: DocumentStream, submit: Callable[..., Future[MinedMentions]]
    ) -> Iterator[_Job]:
        digest, first = "", 0
        batches = document_batches(source, DOCUMENTS_PER_PART, BYTES_PER_PART)
        for number, (records, n_bytes) in enumerate(batches):
            # Of this part and all before it, as these decide what is written.
            chained = digest + documents_digest(records)
            digest = hashlib.blake2b(chained.encode(), digest_size=16).hexdigest()
            known = self.parts.finished(number, digest)
            if known and known.skipped and self.search.on_error is OnError.stop:
                known = None
            mined = None if known else submit(first, records)
            yield _Job(number, digest, n_bytes, known, mined)
            first += len(records)


class _InThisProcess(Executor):
    """Calls functions at once, without another process."""

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """What the function gives."""
        future: Future[T] = Future()
        future.set_result(function(*args, **kwargs))
        return future


_SEARCHES: list[MentionSearch] = []  # the one of this worker: it is sent once, not with each part


def _begin(search: MentionSearch) -> None:
    """Begin a worker. Signals are for its parent, with which it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    _SEARCHES[:] = [search]


def _mined(first: int, records: list[RawDocument]) -> MinedMentions:
    return _SEARCHES[0].mined(first, records)


def _settings(search: MentionSearch) -> dict[str, object]:
    """All that decides the output apart from the documents, as plain data."""
    names = hashlib.blake2b(search.names.hashes.tobytes(), digest_size=16)
    names.update(search.names.owners.tobytes())
    return {
        "knowledge base": search.kb.manifest["checksum"],
        "list of names": names.hexdigest(),
        "number of mentions an entity": search.per_entity,
        "size of windows": search.window,
        "seed": search.seed,
        "size of parts": [DOCUMENTS_PER_PART, BYTES_PER_PART],
    }


def _stored(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The entities and priorities of the mentions in a part."""
    with open(path, encoding="utf8") as lines:
        rows = [(row["number"], row["priority"]) for row in map(json.loads, lines)]
    numbers, priorities = zip(*rows) if rows else ((), ())
    return np.array(numbers, dtype=np.int64), np.array(priorities, dtype=np.uint64)


def _join(parts: Sequence[Path], path: Path, per_entity: int) -> None:
    """Make the Parquet file of all parts: the mentions of the lowest priorities of each entity.

    They are chosen without their texts, which would not fit into memory: DuckDB can sort what is
    larger than its memory, but not number it (``row_number``).
    """
    import duckdb

    kept = ", ".join(f'"{name}"' for name in _ROW if name not in _CHOSEN_BY)
    choose = (
        f"CREATE TEMP TABLE lowest AS SELECT number, priority FROM {_rows(parts, _CHOSEN_BY)} "
        f"QUALIFY row_number() OVER (PARTITION BY number ORDER BY priority) <= {per_entity}"
    )
    query = (
        f"SELECT {kept} FROM {_rows(parts, _ROW)} SEMI JOIN lowest USING (number, priority) "
        "ORDER BY md5(entity), priority"
    )
    with duckdb_that_sorts(path) as (connection, _):
        connection.execute("SET threads = 1")  # the same parts give the same bytes
        try:
            connection.execute(choose)
            connection.execute(f"COPY ({query}) TO {sql_literal(str(path))} (FORMAT parquet)")
        except duckdb.IOException as error:
            raise OSError(errno.ENOSPC, f"could not be written whole: {error}") from error


def _rows(parts: Sequence[Path], columns: Mapping[str, str]) -> str:
    """Columns of all parts, as a table in SQL."""
    if not any(part.stat().st_size for part in parts):
        nothing = (f'NULL::{kind} AS "{name}"' for name, kind in columns.items())
        return f"(SELECT {', '.join(nothing)} LIMIT 0)"
    kinds = ", ".join(f"\"{name}\": '{kind}'" for name, kind in columns.items())
    return (
        f"read_json([{', '.join(map(sql_path, parts))}], format = 'newline_delimited', "
        f"columns = {{{kinds}}}, compression = 'uncompressed', "
        f"maximum_object_size = {_LONGEST_ROW})"
    )


def _judged(path: Path) -> tuple[int, int, int, int]:
    """The rows of a file, their entities, the judged rows and the right ones."""
    with duckdb_connection(threads=1) as connection:
        connection.execute(
            'SELECT count(*), count(DISTINCT entity), count("right"), '
            f'count(*) FILTER ("right") FROM read_parquet({sql_path(path)})'
        )
        return connection.fetchone()  # type: ignore[return-value]
