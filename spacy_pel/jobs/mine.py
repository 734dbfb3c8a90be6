"""Mentions of the entities of a knowledge base, mined from plain text: self-supervised mentions.

Source: KRISSBERT (Zhang et al. 2022), sections 3.1 and 3.5.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..documents import DocumentStream, open_documents
from ..documents.document_stream import ChainedStream
from ..errors import PelError
from ..system.duckdb_session import duckdb_connection, duckdb_that_sorts, sql_literal, sql_path
from .blocks import Blocks, join, output_blocks
from .document_blocks import (
    BlockReport,
    DocumentBlock,
    LinkedCounts,
    LinkProgress,
    document_blocks,
    unfinished,
)
from .sampled_mentions import MentionSearch, MinedMentions
from .workers import local_results

DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK = 50_000, 16 * 2**20
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
    with output_blocks(target, _settings(search), progress.say) as blocks:
        names = []
        for report in _mined_blocks(search, source, blocks, n_process, progress):
            report.tell(progress)
            total += report.counts
            names.append(report.name)
        join(blocks, names, partial(_join, per_entity=search.per_entity), target)
    return MiningResult(total.documents, total.mentions, *_judged(target), total.skipped)


class _Searched(NamedTuple):
    """A block of the input, and what was found in it."""

    name: str
    n_bytes: int
    digest: str
    mined: MinedMentions


def _mined_blocks(
    search: MentionSearch,
    source: DocumentStream,
    blocks: Blocks,
    n_process: int,
    progress: LinkProgress,
) -> Iterator[BlockReport]:
    """Search the blocks that are not there yet; a report of each block, in their order.

    Mentions of an entity that cannot be among those kept, since enough of lower priorities have
    been found before, are not written.
    """
    lowest = _LowestPriorities(search)
    items = unfinished(_chained(source), blocks, search.on_error, progress.say, "searched")
    make = partial(_searching, search)
    with closing(local_results(make, items, ["cpu"] * n_process)) as results:
        for result in results:
            if isinstance(result, BlockReport):
                lowest.admitted(*_stored(blocks.path(result.name)))
                yield result
                continue
            name, n_bytes, digest, mined = result
            admitted = lowest.admitted(mined.numbers, mined.priorities)
            counts = LinkedCounts(mined.documents, mined.found, mined.skipped)

            def write(path: Path) -> LinkedCounts:
                with open(path, "w", encoding="utf8", errors="replace") as file:
                    file.writelines(f"{mined.rows[place]}\n" for place in np.flatnonzero(admitted))
                return counts

            blocks.write(name, write, digest)
            yield BlockReport(name, n_bytes, counts)


def _chained(source: DocumentStream) -> Iterator[DocumentBlock]:
    """The blocks of the input. A digest is of a block and all before it: these decide what is kept."""
    digest = ""
    for block in document_blocks(source, DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK):
        digest = hashlib.blake2b((digest + block.digest).encode(), digest_size=16).hexdigest()
        yield replace(block, digest=digest)


def _searching(search: MentionSearch, device: str) -> Callable[[DocumentBlock], _Searched]:
    """What searches a block, in any process."""

    def work(block: DocumentBlock) -> _Searched:
        mined = search.mined(block.first - 1, block.records)
        return _Searched(block.name, block.n_bytes, block.digest, mined)

    return work


class _LowestPriorities:
    """The lowest priorities of each entity that have been met."""

    def __init__(self, search: MentionSearch) -> None:
        n_entities = int(search.kb.numbers().max(initial=-1)) + 1
        # Their upper halves: of equal halves both are kept.
        shape = (n_entities, search.per_entity)
        self._halves = np.full(shape, np.iinfo(np.uint32).max, np.uint32)

    def admitted(self, numbers: np.ndarray, priorities: np.ndarray) -> np.ndarray:
        """Which mentions may be among those kept; bool [n]. They are remembered."""
        halves = (priorities >> np.uint64(32)).astype(np.uint32)
        admitted = halves <= self._halves[numbers].max(axis=1)
        order = np.argsort(numbers[admitted], kind="stable")
        entities, begins = np.unique(numbers[admitted][order], return_index=True)
        for entity, new in zip(entities, np.split(halves[admitted][order], begins[1:])):
            together = np.sort(np.concatenate((self._halves[entity], new)))
            self._halves[entity] = together[: len(self._halves[entity])]
        return admitted


def _settings(search: MentionSearch) -> dict[str, object]:
    """All that decides the output apart from the documents, as plain data."""
    names = hashlib.blake2b(search.names.wanted.tobytes(), digest_size=16)
    return {
        "knowledge base": search.kb.settings["checksum"],
        "list of names": [names.hexdigest(), search.aliases],
        "number of mentions an entity": search.per_entity,
        "size of windows": search.window,
        "seed": search.seed,
        "size of parts": [DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK],
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
