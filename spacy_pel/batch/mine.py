"""Mentions of the entities of a knowledge base, mined from plain text: self-supervised mentions.

Source: KRISSBERT (Zhang et al. 2022), sections 3.1 and 3.5.
"""

import gzip
import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..corpora import RawDocument, open_documents
from ..corpora.document import Document
from ..corpora.formats.base import place_text
from ..corpora.formats.tables import rows_of_parts, write_parquet
from ..errors import PelError
from ..io.duckdb_session import duckdb_connection, duckdb_that_sorts, sql_path
from ..kb.knowledge_base import KnowledgeBase
from ..kb.name_finder import NameFinder
from ..kb.pieces import Pieces
from .document_blocks import BlockJob, DocumentBlock, Done, LinkedCounts, NoBar, OnError, refusal

DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK = 50_000, 16 * 2**20
_CHARACTERS_AT_ONCE = 1_000_000  # that are searched at a time: they take about 70 MB
_SHORTEST = 3  # characters of a mention: acronyms of two letters mean too much
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
}


class MiningResult(NamedTuple):
    """The numbers of what was mined."""

    documents: int  # that were searched
    found: int  # mentions in them
    kept: int  # mentions
    entities: int  # of those kept
    skipped: tuple[str, ...]  # a message for each document that could not be read


class MentionSearch(NamedTuple):
    """How mentions are searched and sampled.

    A mention gets a priority at random, from the seed and its place. The mentions of an entity with
    the lowest priorities are kept: that is a reservoir sample, in whatever order and by however
    many processes the documents are read.
    """

    kb: KnowledgeBase
    names: NameFinder  # of the KB; those that several entities have are passed over
    aliases: bool = False  # whether they are looked for, and not only preferred names
    per_entity: int = 16  # the most mentions of an entity, less than a million
    window: int = 64  # the number of words and signs around a mention that are kept
    seed: int = 0  # of the priorities
    on_error: OnError = OnError.stop  # what is done at a document that cannot be read

    def mined(self, first: int, records: Sequence[RawDocument]) -> tuple[list[str], LinkedCounts]:
        """The sampled mentions of documents as lines of JSON, in the order of the text.

        Also the number of documents that were searched, and of all mentions in them. ``first`` is the
        number of the first one in the whole input. PelError for a document that ends the run.
        """
        sources: dict[int, tuple[RawDocument, Document]] = {}
        skipped = []
        for number, record in enumerate(records, first):
            try:
                sources[number] = record, record.document(left_out=[])  # its mentions do not count
            except PelError as error:
                skipped.append(refusal(number, error, self.on_error))
        texts = {number: document.text for number, (_, document) in sources.items()}
        chunk_of = dict(
            zip(texts, (n // _CHARACTERS_AT_ONCE for n in accumulate(map(len, texts.values()))))
        )
        chunks = groupby(texts, chunk_of.__getitem__)
        found = [self._in_chunk({n: texts[n] for n in numbers}) for _, numbers in chunks]
        columns = np.concatenate([np.empty((6, 0), np.int64), *(places for places, _ in found)], 1)
        priorities = np.concatenate([np.empty(0, np.uint64), *(own for _, own in found)])
        kept = lowest_of_each(columns[-1], priorities, self.per_entity)
        counts = LinkedCounts(len(sources), len(priorities), tuple(skipped))
        numbers = np.unique(columns[-1, kept]).tolist()
        ids = {number: id for number, (id, _) in zip(numbers, self.kb.labels(numbers))}
        rows = [
            self._row(*sources[source], places, ids[places[-1]], priority)
            for source, *places, priority in zip(
                *columns[:, kept].tolist(), priorities[kept].tolist()
            )
        ]
        return rows, counts

    def write(self, block: DocumentBlock, path: Path, done: Done) -> LinkedCounts:
        """Write the sampled mentions of a block to a file, and say what is in it."""
        rows, counts = self.mined(block.first - 1, block.records)
        with gzip.open(path, "wt", 1, encoding="utf8", errors="replace") as file:
            file.writelines(f"{row}\n" for row in rows)
        done(counts.documents, block.n_bytes)
        return counts

    def _in_chunk(self, documents: dict[int, str]) -> tuple[np.ndarray, np.ndarray]:
        """The mentions in documents, given by their numbers, and their priorities.

        Of each mention the number of its document, its start and end, those of its window, and the
        number of its entity: int64 [6, n].
        """
        pieces = Pieces(list(documents.values()))
        first, last, names = self.names.find_in(pieces)
        firsts = self.names.bounds[names]
        is_kept = self.names.bounds[names + 1] - firsts == 1
        is_kept &= pieces.ends[last] - pieces.starts[first] >= _SHORTEST
        if not self.aliases:
            is_kept &= self.names.preferred[firsts]
        first, last, owners = first[is_kept], last[is_kept], self.names.owners[firsts[is_kept]]
        texts = pieces.texts[first]
        half = self.window // 2
        window_first = np.maximum(first - half, pieces.first[texts])
        window_last = np.minimum(last + half, pieces.first[texts + 1] - 2)  # behind it is a break
        starts = pieces.starts[first]
        columns = [
            np.array(list(documents))[texts],
            starts,
            pieces.ends[last],
            pieces.starts[window_first],
            pieces.ends[window_last],
            owners,
        ]
        columns = np.array(columns, dtype=np.int64)
        numbers = columns[0].astype(np.uint64)
        seeded = _mixed(numbers + _mixed(np.array([self.seed], dtype=np.uint64)))
        return columns, _mixed(seeded + starts.astype(np.uint64))

    def _row(
        self,
        record: RawDocument,
        document: Document,
        places: Sequence[int],
        concept_id: str,
        priority: int,
    ) -> str:
        """The row of a mention, as JSON."""
        start, end, window_start, window_end, number = places
        place = {"start": start - window_start, "end": end - window_start, "id": concept_id}
        row = {
            "number": number,
            "priority": priority,
            "text": document.text[window_start:window_end],
            "id": place_text(record.place) if document.id is None else str(document.id),
            "mentions": [place],
            "source": record.name,
            "offset": start,
            "name": document.text[start:end],
            "entity": concept_id,
        }
        return json.dumps(row, ensure_ascii=False)


def lowest_of_each(numbers: np.ndarray, priorities: np.ndarray, n: int) -> np.ndarray:
    """The places of the n lowest priorities, uint64 [m], of each number, int64 [m]; ascending."""
    order = np.lexsort((priorities, numbers))
    grouped = numbers[order]
    rank = np.arange(len(grouped)) - np.searchsorted(grouped, grouped)
    return np.sort(order[rank < n])


def _mixed(values: np.ndarray) -> np.ndarray:
    """The numbers, uint64, spread over all bits (splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def mine_mentions(
    search: MentionSearch,
    texts: Sequence[str],
    output: str | Path,
    *,
    input_format: str | None = None,
    n_process: int = 1,
    progress: Callable[..., Any] = NoBar,
) -> MiningResult:
    """Write the mentions of entities that texts hold to a Parquet file, a sample of each entity's.

    A row is a document for training: "text", "id" and "mentions", as in JSONL. The text is the
    window around the mention. More columns say where it is from. Rows of an entity stand together,
    entities in a random order. The same input gives the same rows, with any number of processes and
    after any interruption.

    PelError if nothing can be read, the output is not named .parquet or is read itself, or a
    document is bad and ``search.on_error`` is "stop".
    """
    target = Path(output).resolve()
    if target.suffix != ".parquet":
        raise PelError(f"{output}: mentions are written as Parquet", "end its name in .parquet")
    if any(Path(text).resolve() in (target, *target.parents) for text in texts):
        raise PelError(f"{output}: is what is read, or in its folder", "write it somewhere else")
    source = open_documents(texts, input_format)
    names = hashlib.blake2b(search.names.wanted.tobytes(), digest_size=16)
    settings = {  # all that decides the output apart from the documents
        "knowledge base": search.kb.settings["checksum"],
        "list of names": [names.hexdigest(), search.aliases],
        "number of mentions an entity": search.per_entity,
        "size of windows": search.window,
        "seed": search.seed,
    }

    size = DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK
    join = partial(_join, per_entity=search.per_entity)
    job = BlockJob(search.write, n_process, search.on_error, progress)
    total = job.to_file(source, target, settings, size, join)
    with duckdb_connection(threads=1) as connection:
        connection.execute(
            f"SELECT count(*), count(DISTINCT entity) FROM read_parquet({sql_path(target)})"
        )
        kept = connection.fetchone()
    return MiningResult(total.documents, total.mentions, *kept, total.skipped)


def _join(parts: Sequence[Path], path: Path, per_entity: int) -> None:
    """Make the Parquet file of all parts: the mentions of the lowest priorities of each entity.

    They are chosen without their texts, which would not fit into memory.
    """
    kept = ", ".join(f'"{name}"' for name in _ROW if name not in _CHOSEN_BY)
    choose = (
        f"CREATE TEMP TABLE lowest AS SELECT number, unnest(min(priority, {per_entity})) AS priority "
        f"FROM {rows_of_parts(parts, _CHOSEN_BY, 'gzip')} GROUP BY number"
    )
    query = (
        f"SELECT {kept} FROM {rows_of_parts(parts, _ROW, 'gzip')} "
        "SEMI JOIN lowest USING (number, priority) ORDER BY md5(entity), priority"
    )
    with duckdb_that_sorts(path) as connection:
        connection.execute("SET threads = 1")  # the same parts give the same bytes
        connection.execute(choose)
        write_parquet(connection, query, path)
