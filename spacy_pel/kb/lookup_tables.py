"""Write the records of a KB and its look-up tables by id, name, word, type and source."""

import hashlib
import json
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from .records.names import name_hash, normalised
from .records.semantic_types import SemanticType
from .store import COLUMNS, FIELDS, POSTING, SCHEMA, entity_of, record_crc

QUICK = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
VALUES = ", ".join("?" * len(COLUMNS))
_BATCH_SIZE = 1 << 16  # hashes of names written at a time
_WORD_INDEX_BYTES = 1 << 24  # of the index of words in memory before they are written
_SET_OPTION = "INSERT INTO word (word, rank) VALUES (?, ?)"


def write_tables(
    database: sqlite3.Connection,
    rows: Iterable[Sequence[str | None]],
    types: Iterable[SemanticType],
) -> str:
    """Create and fill the tables of a new KB in a transaction that stays open; return a hash of them."""
    database.executescript(f"{QUICK} {SCHEMA} BEGIN")
    database.executemany(_SET_OPTION, [("automerge", 0), ("hashsize", _WORD_INDEX_BYTES)])
    digest = write_records(database, 0, rows, types)
    database.execute("INSERT INTO word (word) VALUES ('optimize')")
    database.executemany(_SET_OPTION, [("automerge", 4), ("hashsize", 1 << 20)])
    return digest


def write_records(
    database: sqlite3.Connection,
    first: int,
    rows: Iterable[Sequence[str | None]],
    types: Iterable[SemanticType],
) -> str:
    """Write records, numbered from ``first``, and their look-up tables; return a hash of them."""
    digest = hashlib.sha256()
    hashes = array("Q")  # hash << 32 | number, which sorts like the pair
    typed: dict[str, array[int]] = defaultdict(lambda: array("i"))  # from types to record numbers
    sourced: dict[str, array[int]] = defaultdict(lambda: array("i"))
    insert = f"INSERT INTO entity (number, {FIELDS}, crc) VALUES (?, {VALUES}, ?)"
    for number, row in enumerate(rows, first):
        entity, crc = entity_of(row), record_crc(row)
        digest.update(crc.to_bytes(4, "little"))
        database.execute(insert, (number, *row, crc))
        names = dict.fromkeys(map(normalised, entity.names))
        insert_words = "INSERT INTO word (rowid, names) VALUES (?, ?)"
        database.execute(insert_words, (number, " ".join(names)))
        hashes.extend(name_hash(name) << 32 | number for name in names)
        for id in (*entity.alt_ids, *entity.retired_ids):
            database.execute("INSERT OR IGNORE INTO alternative VALUES (?, ?)", (id, number))
        for postings, keys in ((typed, entity.types), (sourced, entity.sources)):
            for key in keys:
                postings[key].append(number)
    ordered = np.sort(np.frombuffer(hashes, dtype=np.uint64))
    for start in range(0, len(ordered), _BATCH_SIZE):
        batch = ordered[start : start + _BATCH_SIZE]
        pairs = zip((batch >> 32).tolist(), (batch & 0xFFFFFFFF).tolist())
        database.executemany("INSERT OR IGNORE INTO name VALUES (?, ?)", pairs)
    for table, postings in (("typed", typed), ("sourced", sourced)):
        blobs = {key: np.array(numbers, POSTING).tobytes() for key, numbers in postings.items()}
        lists = [(key, first, blob) for key, blob in sorted(blobs.items())]
        database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", lists)
    known = set(database.execute("SELECT * FROM semantic_type"))
    new = [type for type in dict.fromkeys(types) if type not in known]
    database.executemany("INSERT INTO semantic_type VALUES (?, ?, ?)", new)
    digest.update(json.dumps(new).encode())
    return digest.hexdigest()
