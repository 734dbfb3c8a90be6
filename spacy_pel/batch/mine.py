"""Mine mentions of the entities of a KB from plain text, for self-supervised training.

Source: KRISSBERT (Zhang et al. 2022), sections 3.1 and 3.5.
"""

import gzip
import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..corpora.document import Document
from ..corpora.formats.base import place_text
from ..corpora.formats.tables import rows_of_parts, write_parquet
from ..corpora.open_documents import RawDocument, open_documents
from ..errors import PelError
from ..io.duckdb_session import duckdb_connection, duckdb_that_sorts, sql_path
from ..kb.knowledge_base import KnowledgeBase
from ..kb.name_finder import NameFinder
from ..kb.pieces import Pieces
from .document_blocks import (
    BlockJob,
    BlockSize,
    DocumentBlock,
    LinkedCounts,
    NoBar,
    OnError,
    ReportDone,
    refusal,
)

DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK = 50_000, 16 * 2**20
_BATCH_CHARACTERS = 1_000_000  # characters to search at a time, in about 70 MB
WINDOW = 64  # tokens to keep around a mention
_MIN_LENGTH = 3  # characters of a mention: abbreviations of two letters have too many senses
_SAMPLE_KEY = {"number": "BIGINT", "priority": "UBIGINT"}
_ROW = {
    **_SAMPLE_KEY,
    "text": "VARCHAR",
    "id": "VARCHAR",
    "mentions": 'STRUCT("start" BIGINT, "end" BIGINT, id VARCHAR)[]',
    "source": "VARCHAR",
    "offset": "BIGINT",
    "name": "VARCHAR",
    "entity": "VARCHAR",
}


class MiningResult(NamedTuple):
    """The numbers of documents, mentions and entities."""

    documents: int  # searched
    found: int  # mentions in the documents
    kept: int  # sampled mentions
    entities: int  # of the sampled mentions
    skipped: tuple[str, ...]  # a message for each document that could not be read


class MentionSearch(NamedTuple):
    """The settings by which mentions are searched and sampled.

    The place of a mention determines its random priority. The sample of an entity has the mentions with
    the lowest priorities. Such a reservoir sample does not depend on the order in which documents are read,
    or on the number of processes.
    """

    kb: KnowledgeBase
    names: NameFinder  # of the KB; names of several entities are ignored
    aliases: bool = False  # also search aliases, not only preferred names
    per_entity: int = 16  # the maximum number of mentions, below a million
    on_error: OnError = OnError.stop

    def mined(self, first: int, records: Sequence[RawDocument]) -> tuple[list[str], LinkedCounts]:
        """Return the sampled mentions of documents as JSON, in the order of the text, and the counts.

        The counts are those of the documents and of all mentions in them. ``first`` is the number of the
        first document in the input.

        Raises:
            PelError: A bad document ends the run.
        """
        sources: dict[int, tuple[RawDocument, Document]] = {}
        skipped = []
        for number, record in enumerate(records, first):
            try:
                # Mentions in the input are ignored, so a malformed one is no error.
                sources[number] = record, record.document(left_out=[])
            except PelError as error:
                skipped.append(refusal(number, error, self.on_error))
        batches: list[dict[int, str]] = [{}]
        n_characters = 0
        for number, (_, document) in sources.items():
            if n_characters >= _BATCH_CHARACTERS:
                batches.append({})
                n_characters = 0
            batches[-1][number] = document.text
            n_characters += len(document.text)
        results = [self._search(batch) for batch in batches]
        mentions = np.concatenate([mentions for mentions, _ in results], axis=1)
        priorities = np.concatenate([priorities for _, priorities in results])
        sampled = lowest_of_each(mentions[-1], priorities, self.per_entity)
        counts = LinkedCounts(len(sources), len(priorities), tuple(skipped))
        entities = np.unique(mentions[-1, sampled]).tolist()
        ids = {number: id for number, (id, _) in zip(entities, self.kb.labels(entities))}
        rows = []
        for mention, priority in zip(mentions[:, sampled].T.tolist(), priorities[sampled].tolist()):
            source, *offsets, entity = mention
            rows.append(self._row(*sources[source], offsets, entity, ids[entity], priority))
        return rows, counts

    def write(self, block: DocumentBlock, path: Path, done: ReportDone) -> LinkedCounts:
        """Write the sampled mentions of a block to a file, and return the counts."""
        rows, counts = self.mined(block.first - 1, block.records)
        with gzip.open(path, "wt", 1, encoding="utf8", errors="replace") as file:
            file.writelines(f"{row}\n" for row in rows)
        done(counts.documents, block.n_bytes)
        return counts

    def _search(self, documents: dict[int, str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the mentions in texts, given by document number, and their priorities, uint64 [n].

        The mentions are int64 [6, n]: the number of the document, the start and end of the mention, those of
        its window, and the number of the entity.
        """
        pieces = Pieces(list(documents.values()))
        first, last, names = self.names.find_in(pieces)
        firsts = self.names.bounds[names]
        is_kept = self.names.bounds[names + 1] - firsts == 1
        is_kept &= pieces.ends[last] - pieces.starts[first] >= _MIN_LENGTH
        if not self.aliases:
            is_kept &= self.names.preferred[firsts]
        first, last, owners = first[is_kept], last[is_kept], self.names.owners[firsts[is_kept]]
        texts = pieces.texts[first]
        window_first = np.maximum(first - WINDOW // 2, pieces.first[texts])
        window_last = np.minimum(
            last + WINDOW // 2, pieces.first[texts + 1] - 2
        )  # a break ends each text
        starts = pieces.starts[first]
        numbers = np.array(list(documents), dtype=np.int64)[texts]
        mentions = np.array(
            [
                numbers,
                starts,
                pieces.ends[last],
                pieces.starts[window_first],
                pieces.ends[window_last],
                owners,
            ],
            dtype=np.int64,
        )
        return mentions, _mixed(_mixed(numbers.astype(np.uint64)) + starts.astype(np.uint64))

    def _row(
        self,
        record: RawDocument,
        document: Document,
        offsets: Sequence[int],
        number: int,
        concept_id: str,
        priority: int,
    ) -> str:
        """Return the row of a mention as JSON, from the offsets of the mention and of its window."""
        start, end, window_start, window_end = offsets
        mention = {"start": start - window_start, "end": end - window_start, "id": concept_id}
        row = {
            "number": number,
            "priority": priority,
            "text": document.text[window_start:window_end],
            "id": place_text(record.place) if document.id is None else str(document.id),
            "mentions": [mention],
            "source": record.name,
            "offset": start,
            "name": document.text[start:end],
            "entity": concept_id,
        }
        return json.dumps(row, ensure_ascii=False)


def lowest_of_each(numbers: np.ndarray, priorities: np.ndarray, n: int) -> np.ndarray:
    """Return the ascending positions of the n lowest priorities of each number.

    Args:
        numbers: int64 [m].
        priorities: uint64 [m].
        n: The maximum number of positions per number.
    """
    order = np.lexsort((priorities, numbers))
    grouped = numbers[order]
    rank = np.arange(len(grouped)) - np.searchsorted(grouped, grouped)
    return np.sort(order[rank < n])


def _mixed(values: np.ndarray) -> np.ndarray:
    """Return a hash of each number, uint64 (splitmix64)."""
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
    """Write a sample of the mentions of each entity in texts to a Parquet file.

    A row is a training document with the columns "text", "id", and "mentions" of JSONL. Its text is the
    window around the mention. Other columns name its source. The rows of an entity are consecutive, and
    entities are in random order. The same input gives the same rows, with any number of processes and after
    any interruption.

    Args:
        search: The settings of the search.
        texts: Names of documents, as for ``open_documents``.
        output: The Parquet file.
        input_format: The name of a format. None infers it from the file.
        n_process: The number of processes.
        progress: Makes a progress bar like ``tqdm`` from ``total``, the bytes of the input.

    Raises:
        PelError: Nothing can be read, the output is not named .parquet or is part of the input, or a bad
            document ends the run.
    """
    target = Path(output).resolve()
    if target.suffix != ".parquet":
        raise PelError(f"{output}: mentions are written as Parquet", "end its name in .parquet")
    if any(Path(text).resolve() in (target, *target.parents) for text in texts):
        raise PelError(f"{output}: is the input, or in its folder", "write it somewhere else")
    source = open_documents(texts, input_format)
    names = hashlib.blake2b(search.names.wanted.tobytes(), digest_size=16)
    settings = {  # everything except the documents that determines the output
        "knowledge base": search.kb.settings["checksum"],
        "list of names": [names.hexdigest(), search.aliases],
        "number of mentions an entity": search.per_entity,
        "size of windows": WINDOW,
    }
    block_size = BlockSize(DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK)
    join = partial(_join, per_entity=search.per_entity)
    job = BlockJob(search.write, n_process, search.on_error, progress)
    total = job.to_file(source, target, settings, block_size, join)
    with duckdb_connection(threads=1) as connection:
        query = f"SELECT count(*), count(DISTINCT entity) FROM read_parquet({sql_path(target)})"
        [(n_kept, n_entities)] = connection.execute(query).fetchall()
    return MiningResult(total.documents, total.mentions, n_kept, n_entities, total.skipped)


def _join(parts: Sequence[Path], path: Path, per_entity: int) -> None:
    """Join parts: write the mentions with the lowest priorities of each entity to a Parquet file.

    The sample is drawn without the texts, which would not fit into memory.
    """
    columns = ", ".join(f'"{name}"' for name in _ROW if name not in _SAMPLE_KEY)
    choose = (
        f"CREATE TEMP TABLE lowest AS SELECT number, unnest(min(priority, {per_entity})) AS priority "
        f"FROM {rows_of_parts(parts, _SAMPLE_KEY, 'gzip')} GROUP BY number"
    )
    query = (
        f"SELECT {columns} FROM {rows_of_parts(parts, _ROW, 'gzip')} "
        "SEMI JOIN lowest USING (number, priority) ORDER BY md5(entity), priority"
    )
    with duckdb_that_sorts(path) as connection:
        connection.execute("SET threads = 1")  # the same parts give the same bytes
        connection.execute(choose)
        write_parquet(connection, query, path)
