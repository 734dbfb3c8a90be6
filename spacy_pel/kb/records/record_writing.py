"""Writes the file of numbered records that ``store`` reads, from entities in any order."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from ...errors import PelError
from .cleaning import cleaned
from .entity import Entity
from .lookup_tables import write_lookups
from .semantic_types import SemanticType
from .store import FIELDS, SCHEMA, as_json

# There is no journal, because an unfinished file is thrown away.
_QUICK = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
_INSERT = f"INSERT INTO entity (number, {FIELDS}) VALUES (?{', ?' * len(Entity._fields)})"
_SORTED = f"""
INSERT INTO entity (number, {FIELDS})
SELECT row_number() OVER (ORDER BY concept_id) - 1, {FIELDS} FROM arrived.entity
ORDER BY concept_id
"""
_REPEATED = "SELECT concept_id FROM entity GROUP BY concept_id HAVING count(*) > 1 LIMIT 1"
_LENGTHS = ", ".join(
    f"coalesce(sum(json_array_length({field})), 0) AS {field}"
    for field in ("aliases", "alt_ids", "parents", "retired_ids", "xrefs")
)
_COUNTS = f"SELECT count(*) AS entities, count(definition) AS definitions, {_LENGTHS} FROM entity"


def write_records(
    path: Path, scratch: Path, entities: Iterable[Entity], types: Iterable[SemanticType] = ()
) -> dict[str, int]:
    """Writes entities, cleaned and numbered in order of concept id.

    The same entities in another order give the same file, byte for byte. Sorted entities are written
    once; others are sorted on disk first. Memory grows by about 20 bytes for each name.

    If several entities claim an alternative or retired id, the first gets it. If it is a concept id,
    none gets it. The id is removed from the records that do not get it.

    Args:
        path: The file to write.
        scratch: A file that may be used, and that the caller may delete afterwards.
        entities: The entities.
        types: The semantic types that the source defines.

    Returns:
        The manifest's counts: of entities, definitions, aliases and so on.

    Raises:
        PelError: A concept id occurs twice, or ``cleaned`` refuses an entity.
    """
    if not _written_in_order(path, entities):
        os.replace(path, scratch)
        _write_sorted(path, scratch)
    with closing(_opened(path)) as database:
        database.execute("BEGIN")
        write_lookups(database, types)
        database.execute("COMMIT")
        cursor = database.execute(_COUNTS)
        names = [column[0] for column in cursor.description]
        return dict(zip(names, cursor.fetchone()))


def _written_in_order(path: Path, entities: Iterable[Entity]) -> bool:
    """Writes records in the order given; returns whether that is the order of their concept ids."""
    in_order, last = True, ""

    def rows() -> Iterator[tuple]:
        nonlocal in_order, last
        for number, entity in enumerate(map(cleaned, entities)):
            id = entity.concept_id
            if id == last:
                raise _repeated(id)
            in_order = in_order and id > last
            last = id
            yield number, *_row(entity)

    with closing(_created(path)) as database:
        database.execute("BEGIN")
        database.executemany(_INSERT, rows())
        database.execute("COMMIT")
    return in_order


def _write_sorted(path: Path, arrived: Path) -> None:
    with closing(_opened(arrived)) as database:
        database.execute("CREATE INDEX by_id ON entity (concept_id)")
        repeated = database.execute(_REPEATED).fetchone()
        if repeated:
            raise _repeated(repeated[0])
    with closing(_created(path)) as database:
        database.execute("ATTACH ? AS arrived", (str(arrived),))
        database.execute(_SORTED)


def _row(entity: Entity) -> tuple[str | None, ...]:
    id, name, aliases, types, definition, alt_ids, parents, retired, xrefs, sources = entity
    return (
        id, name, as_json(aliases), _shared_json(types), definition, as_json(alt_ids),
        as_json(parents), as_json(retired), as_json(xrefs), _shared_json(sources),
    )  # fmt: skip


_shared_json = lru_cache(maxsize=10_000)(as_json)  # many entities have the same ones


def _created(path: Path) -> sqlite3.Connection:
    database = _opened(path)
    database.executescript(SCHEMA)
    return database


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)
    database.executescript(_QUICK)
    return database


def _repeated(id: str) -> PelError:
    return PelError(f"the concept_id {id!r} occurs twice", "merge its records into one")
