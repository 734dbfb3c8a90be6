"""Writes records, and the tables by which they are looked up: by id, name, word, type and source."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import sqlite3
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from ..errors import PelError
from .records.entity import Entity, cleaned
from .records.names import name_hash, normalised, searched_text
from .records.semantic_types import SemanticType
from .store import FIELDS, POSTING, SCHEMA, entity_row, record_crc, stored_entity

logger = logging.getLogger(__name__)

COUNTED = ("aliases", "alt_ids", "parents", "retired_ids", "xrefs")
_QUICK = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
_STAGED = """
CREATE TABLE entity (
    concept_id TEXT PRIMARY KEY, canonical_name, aliases, types, definition, alt_ids, parents,
    retired_ids, xrefs, sources
) WITHOUT ROWID;
"""
_DROP_LOST_IDS = """
CREATE TABLE claim AS
    SELECT value AS id, concept_id FROM entity, json_each(alt_ids)
    UNION
    SELECT value, concept_id FROM entity, json_each(retired_ids);
CREATE INDEX claim_id ON claim (id, concept_id);
CREATE TABLE lost AS
    SELECT concept_id, id FROM claim WHERE id IN (SELECT concept_id FROM entity)
    OR concept_id > (SELECT min(concept_id) FROM claim AS other WHERE other.id = claim.id);
UPDATE entity SET
    alt_ids = (SELECT nullif(json_group_array(value), '[]') FROM json_each(alt_ids)
               WHERE (concept_id, value) NOT IN (SELECT concept_id, id FROM lost)),
    retired_ids = (SELECT nullif(json_group_array(value), '[]') FROM json_each(retired_ids)
                   WHERE (concept_id, value) NOT IN (SELECT concept_id, id FROM lost))
    WHERE concept_id IN (SELECT concept_id FROM lost);
"""
_N_FIELDS = len(Entity._fields)
_TOGETHER = 4096  # records written at a time
_CHUNK = 1 << 16  # hashes of names
_WORDS_HELD = 1 << 24  # bytes of the index of words in memory before they are written


class StagedRecords:
    """Records that are about to be written, cleaned and sorted by concept id in a scratch file."""

    def __init__(self, entities: Iterable[Entity]) -> None:
        """Reads entities in any order; PelError if a concept id occurs twice or an entity is unusable.

        Of those that claim an alternative or retired id, the first by concept id gets it; none gets a
        concept id. It is removed from the others.
        """
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(f"{_QUICK} {_STAGED} BEGIN")
        insert = f"INSERT INTO entity VALUES (?{', ?' * (_N_FIELDS - 1)})"
        for entity in map(cleaned, entities):
            try:
                self._database.execute(insert, entity_row(entity))
            except sqlite3.IntegrityError as error:
                problem = f"the concept_id {entity.concept_id!r} occurs twice"
                raise PelError(problem, "merge its records into one") from error
        self._database.executescript(_DROP_LOST_IDS)
        ((n_lost,),) = self._database.execute("SELECT count(*) FROM lost")
        if n_lost:
            logger.warning("dropped %d alternative ids that belong to another entity", n_lost)
        ((self.count,),) = self._database.execute("SELECT count(*) FROM entity")

    def close(self) -> None:
        """Removes the scratch file."""
        self._database.close()

    def entities(self) -> Iterator[Entity]:
        """The records, sorted by concept id."""
        return (stored_entity(record_crc(row), *row) for row in self._rows())

    def _rows(self) -> Iterator[tuple]:
        return self._database.execute(f"SELECT {FIELDS} FROM entity ORDER BY concept_id")

    def write(
        self, database: sqlite3.Connection, first: int, types: Iterable[SemanticType]
    ) -> tuple[Counter[str], str]:
        """Writes the records, the first with this number, and their look-up tables.

        What they add to the KB's counts, and a hash of all records, is returned.
        """
        counts = Counter(dict.fromkeys(("entities", "definitions", *COUNTED), 0))
        digest = hashlib.sha256()
        hashes = array("Q")  # hash << 32 | number, which sorts like the pair
        # From types, or sources, to numbers of records, ascending.
        typed, sourced = (defaultdict[str, array](lambda: array("i")) for _ in range(2))
        rows, numbers = self._rows(), itertools.count(first)
        while block := list(itertools.islice(rows, _TOGETHER)):
            records, texts, alternatives = [], [], []
            for row, number in zip(block, numbers):
                crc = record_crc(row)
                entity = stored_entity(crc, *row)
                count_entity(counts, entity)
                digest.update(crc.to_bytes(4, "little"))
                records.append((number, *row, crc))
                names = dict.fromkeys(map(normalised, entity.names))
                texts.append((number, searched_text(" ".join(names))))
                hashes.extend(name_hash(name) << 32 | number for name in names)
                alternatives += [(id, number) for id in (*entity.alt_ids, *entity.retired_ids)]
                for postings, keys in ((typed, entity.types), (sourced, entity.sources)):
                    for key in keys:
                        postings[key].append(number)
            insert = (
                f"INSERT INTO entity (number, {FIELDS}, crc) VALUES (?{', ?' * (_N_FIELDS + 1)})"
            )
            database.executemany(insert, records)
            database.executemany("INSERT INTO word (rowid, names) VALUES (?, ?)", texts)
            database.executemany("INSERT OR IGNORE INTO alternative VALUES (?, ?)", alternatives)
        ordered = np.sort(np.frombuffer(hashes, dtype=np.uint64))
        for start in range(0, len(ordered), _CHUNK):
            chunk = ordered[start : start + _CHUNK]
            pairs = zip((chunk >> 32).tolist(), (chunk & 0xFFFFFFFF).tolist())
            database.executemany("INSERT OR IGNORE INTO name VALUES (?, ?)", pairs)
        for table, postings in (("typed", typed), ("sourced", sourced)):
            blobs = {key: np.array(numbers, POSTING).tobytes() for key, numbers in postings.items()}
            lists = [(key, first, blob) for key, blob in sorted(blobs.items())]
            database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", lists)
        known = set(map(SemanticType._make, database.execute("SELECT * FROM semantic_type")))
        new = [type for type in dict.fromkeys(types) if type not in known]
        database.executemany("INSERT INTO semantic_type VALUES (?, ?, ?)", new)
        digest.update(json.dumps(new).encode())
        return counts, digest.hexdigest()


def count_entity(counts: Counter[str], entity: Entity) -> None:
    """Adds an entity to the counts of a KB."""
    counts["entities"] += 1
    counts["definitions"] += entity.definition is not None
    for field in COUNTED:
        counts[field] += len(getattr(entity, field))


@contextmanager
def new_database(path: Path) -> Iterator[sqlite3.Connection]:
    """An empty database of a KB, without a journal, which is committed at the end of the block."""
    set_option = "INSERT INTO word (word, rank) VALUES (?, ?)"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript(_QUICK + SCHEMA)
        database.executemany(set_option, [("automerge", 0), ("hashsize", _WORDS_HELD)])
        database.execute("BEGIN")
        yield database
        database.execute("INSERT INTO word (word) VALUES ('optimize')")
        database.executemany(set_option, [("automerge", 4), ("hashsize", 1 << 20)])
        database.execute("COMMIT")
