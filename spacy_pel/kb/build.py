"""Build a KB from entities, in one transaction, and write the tables by which records are found."""

import hashlib
import json
import sqlite3
import tempfile
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np

from ..about import __version__
from ..errors import PelError
from .knowledge_base import KnowledgeBase
from .records.entity import Entity, cleaned, joined
from .records.names import name_hash, normalised
from .records.semantic_types import SemanticType
from .store import FIELDS, KIND, POSTING, SCHEMA, SCHEMA_VERSION, entity_of, entity_row, record_crc
from .transaction import folder_lock, put_in_place, temporary_path, write_settings

_COUNTED = ("aliases", "alt_ids", "parents", "retired_ids", "xrefs")
_QUICK = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
_VALUES = ", ".join("?" * len(Entity._fields))
_CHUNK = 1 << 16  # hashes of names written at a time
_WORDS_HELD = 1 << 24  # bytes of the index of words in memory before they are written


def build_kb(
    entities: Iterable[Entity],
    path: str | Path,
    *,
    types: Iterable[SemanticType] = (),
    sources: Sequence[str] = (),
    in_any_order: bool = False,
) -> KnowledgeBase:
    """Writes entities to a KB folder, and opens the KB.

    A KB that is already in the folder is replaced at the very end, together with its vectors. After any
    error or interruption, it stays as it was. The entities come in any order; those with the same concept id
    are ``joined``. ``types`` are those that the sources define; they are read after the entities. Names
    are looked up as they stand, or also ``in_any_order`` of their words (``names_by_words``).

    PelError if the folder holds something else, an entity is unusable, there is none, or the disk is full.
    """
    folder = Path(path).absolute()
    set_option = "INSERT INTO word (word, rank) VALUES (?, ?)"
    with folder_lock(folder):
        new = temporary_path(folder, ".sqlite")
        with closing(sqlite3.connect(new, isolation_level=None)) as database:
            database.executescript(f"{_QUICK} {SCHEMA} BEGIN")
            database.executemany(set_option, [("automerge", 0), ("hashsize", _WORDS_HELD)])
            digest = write_records(database, 0, sorted_rows(entities), types)
            counts = count_records(database, "true")
            if not counts["entities"]:
                source = ", ".join(sources) or folder
                raise PelError(f"{source}: no entities", "check that it is the right source")
            settings = {
                "kind": KIND,
                "schema_version": SCHEMA_VERSION,
                "vectors": None,
                "mentions": None,
            }
            settings |= {"created_by": f"spacy-pel {__version__}", "sources": list(sources)}
            settings |= {"counts": counts, "checksum": digest, "change": 0}
            settings |= dict.fromkeys(("next_number", "in_order"), counts["entities"])
            settings |= {"in_any_order": in_any_order, "plain_names": True}
            write_settings(database, settings)
            database.execute("INSERT INTO setting VALUES ('built', ?)", (digest,))
            database.execute("INSERT INTO word (word) VALUES ('optimize')")
            database.executemany(set_option, [("automerge", 4), ("hashsize", 1 << 20)])
            database.execute("COMMIT")
        put_in_place(new, folder)
    return KnowledgeBase.open(folder)


# Records, and the tables by which they are looked up: by id, name, word, type and source.


def united(entities: Iterable[Entity]) -> Iterator[Entity]:
    """The entities, cleaned and sorted by concept id. Those with the same are ``joined``, in the order given.

    PelError if an entity is unusable, or there is no space to sort them in a scratch file.
    """
    return map(entity_of, sorted_rows(entities))


def sorted_rows(entities: Iterable[Entity]) -> Iterator[Sequence[str | None]]:
    """The records of ``united``, as the KB stores them."""
    try:
        with closing(sqlite3.connect("", isolation_level=None)) as scratch:
            scratch.executescript(f"{_QUICK} CREATE TABLE entity ({FIELDS}); BEGIN")
            rows = map(entity_row, map(cleaned, entities))
            scratch.executemany(f"INSERT INTO entity VALUES ({_VALUES})", rows)
            ordered = scratch.execute("SELECT * FROM entity ORDER BY concept_id, rowid")
            for _, group in groupby(ordered, key=itemgetter(0)):
                first, *others = group
                if others:
                    first = entity_row(joined(*map(entity_of, (first, *others))))
                yield first
    except sqlite3.OperationalError as error:
        problem = f"the entities cannot be sorted in {tempfile.gettempdir()} ({error})"
        remedy = "free some space there, or set TMPDIR to a larger folder"
        raise PelError(problem, remedy) from error


def write_records(
    database: sqlite3.Connection,
    first: int,
    rows: Iterable[Sequence[str | None]],
    types: Iterable[SemanticType],
) -> str:
    """Writes records, the first with this number, and their look-up tables; returns a hash of them."""
    digest = hashlib.sha256()
    hashes = array("Q")  # hash << 32 | number, which sorts like the pair
    # From types, or sources, to numbers of records, ascending.
    typed, sourced = (defaultdict[str, array](lambda: array("i")) for _ in range(2))
    insert = f"INSERT INTO entity (number, {FIELDS}, crc) VALUES (?, {_VALUES}, ?)"
    for number, row in enumerate(rows, first):
        entity, crc = entity_of(row), record_crc(row)
        digest.update(crc.to_bytes(4, "little"))
        database.execute(insert, (number, *row, crc))
        names = dict.fromkeys(map(normalised, entity.names))
        row = number, " ".join(names)
        database.execute("INSERT INTO word (rowid, names) VALUES (?, ?)", row)
        hashes.extend(name_hash(name) << 32 | number for name in names)
        for id in (*entity.alt_ids, *entity.retired_ids):
            database.execute("INSERT OR IGNORE INTO alternative VALUES (?, ?)", (id, number))
        for postings, keys in ((typed, entity.types), (sourced, entity.sources)):
            for key in keys:
                postings[key].append(number)
    ordered = np.sort(np.frombuffer(hashes, dtype=np.uint64))
    for start in range(0, len(ordered), _CHUNK):
        chunk = ordered[start : start + _CHUNK]
        pairs = zip((chunk >> 32).tolist(), (chunk & 0xFFFFFFFF).tolist())
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


def count_records(database: sqlite3.Connection, which: str, *parameters: int) -> dict[str, int]:
    """The counts of a KB's settings, of its records for which a condition of SQL holds."""
    sums = [f"ifnull(sum(json_array_length({name})), 0)" for name in _COUNTED]
    query = f"SELECT count(*), count(definition), {', '.join(sums)} FROM entity WHERE {which}"
    counts = database.execute(query, parameters).fetchone()
    return dict(zip(("entities", "definitions", *_COUNTED), counts))
