"""Writes the look-up tables of a segment's records: by id, name, word, type and source."""

from __future__ import annotations

import json
import logging
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

import numpy as np

from .names import name_hash, normalised, searched_text
from .semantic_types import SemanticType
from .store import INDEX, POSTING, as_json

logger = logging.getLogger(__name__)

_NAMES = "SELECT number, canonical_name, aliases FROM entity ORDER BY number"
_CLAIMED = """
SELECT id, min(number) FROM claim
WHERE NOT EXISTS (SELECT 1 FROM entity WHERE concept_id = id) GROUP BY id ORDER BY id
"""
_LOST = """
SELECT claim.number, claim.id FROM claim LEFT JOIN alternative USING (id)
WHERE alternative.number IS NOT claim.number ORDER BY claim.number
"""
_CHUNK = 1 << 16
_WORDS_HELD = 1 << 24  # bytes of the index of words in memory before they are written


def write_lookups(database: sqlite3.Connection, types: Iterable[SemanticType]) -> None:
    """Fills the tables of ``store.SCHEMA`` from the records. It may remove ids from records."""
    database.execute(INDEX)
    _write_alternatives(database)
    _write_names(database)
    for field, table in (("types", "typed"), ("sources", "sourced")):
        _write_postings(database, field, table)
    database.executemany("INSERT INTO semantic_type VALUES (?, ?, ?)", dict.fromkeys(types))


def _write_alternatives(database: sqlite3.Connection) -> None:
    """Gives each alternative or retired id to one entity, and removes it from other records."""
    database.execute("CREATE TEMP TABLE claim (id TEXT, number INTEGER)")
    for field in ("alt_ids", "retired_ids"):
        database.execute(
            f"INSERT INTO claim SELECT value, number FROM entity, json_each({field}) "
            f"WHERE {field} IS NOT NULL"
        )
    database.execute(f"INSERT INTO alternative {_CLAIMED}")
    lost = database.execute(_LOST).fetchall()
    for number, claims in groupby(lost, key=itemgetter(0)):
        _take_ids(database, number, {id for _, id in claims})
    if lost:
        logger.warning("dropped %d alternative ids that belong to another entity", len(lost))


def _take_ids(database: sqlite3.Connection, number: int, ids: set[str]) -> None:
    for field in ("alt_ids", "retired_ids"):
        query = f"SELECT {field} FROM entity WHERE number = ?"
        (text,) = database.execute(query, (number,)).fetchone()
        kept = [id for id in json.loads(text or "[]") if id not in ids]
        update = f"UPDATE entity SET {field} = ? WHERE number = ?"
        database.execute(update, (as_json(kept), number))


def _write_names(database: sqlite3.Connection) -> None:
    """Writes the words of each entity's names, and the hashes of its normalised names."""
    hashes = array("Q")  # hash << 32 | number, which sorts like the pair

    def texts() -> Iterator[tuple[int, str]]:
        for number, name, aliases in database.execute(_NAMES):
            names = {normalised(alias): None for alias in (name, *json.loads(aliases or "[]"))}
            hashes.extend(name_hash(name) << 32 | number for name in names)
            yield number, searched_text(" ".join(names))

    set_option = "INSERT INTO word (word, rank) VALUES (?, ?)"
    database.executemany(set_option, [("automerge", 0), ("hashsize", _WORDS_HELD)])
    database.executemany("INSERT INTO word (rowid, names) VALUES (?, ?)", texts())
    database.execute("INSERT INTO word (word) VALUES ('optimize')")
    database.executemany("INSERT OR IGNORE INTO name VALUES (?, ?)", _pairs(hashes))


def _pairs(hashes: array) -> Iterator[tuple[int, int]]:
    ordered = np.frombuffer(hashes, dtype=np.uint64)
    ordered.sort()
    for start in range(0, len(ordered), _CHUNK):
        chunk = ordered[start : start + _CHUNK]
        yield from zip((chunk >> 32).tolist(), (chunk & 0xFFFFFFFF).tolist())


def _write_postings(database: sqlite3.Connection, field: str, table: str) -> None:
    """Writes for each type, or source, the numbers of the entities that have it."""
    postings: dict[str, array] = defaultdict(lambda: array("i"))
    query = f"SELECT number, {field} FROM entity WHERE {field} IS NOT NULL ORDER BY number"
    for number, texts in database.execute(query):
        for text in _texts(texts):
            postings[text].append(number)
    rows = ((text, np.array(postings[text], POSTING).tobytes()) for text in sorted(postings))
    database.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)


@lru_cache(maxsize=10_000)
def _texts(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))
