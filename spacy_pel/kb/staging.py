"""From entities in any order to the file of numbered records that ``store`` reads."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from ..errors import PelError
from .entity import Entity
from .store import SCHEMA

logger = logging.getLogger(__name__)

# Control characters end C strings and lines; lone surrogates cannot be written as UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_QUICK = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"


def write_records(path: Path, scratch: Path, entities: Iterable[Entity]) -> dict[str, int]:
    """Writes cleaned entities, numbered in order of concept id, and returns the counts of them.

    The same entities in another order make the same file, byte for byte. ``scratch`` is a file
    that may be deleted afterwards: entities are sorted on disk, so memory does not grow with them.
    Raises PelError for an id given twice and for an unusable id or name.
    """
    with closing(sqlite3.connect(scratch, isolation_level=None)) as database:
        database.executescript(_QUICK + "BEGIN")
        _stage(database, entities)
        database.execute("COMMIT")
        with closing(sqlite3.connect(path, isolation_level=None)) as target:
            target.executescript(f"{_QUICK} {SCHEMA} BEGIN")
            counts = _number(database, target)
            target.execute("COMMIT")
    return counts


def _stage(database: sqlite3.Connection, entities: Iterable[Entity]) -> None:
    database.execute("CREATE TABLE staged (concept_id TEXT UNIQUE, record TEXT)")
    for entity in map(cleaned, entities):
        row = (entity.concept_id, json.dumps(entity, ensure_ascii=False))
        try:
            database.execute("INSERT INTO staged VALUES (?, ?)", row)
        except sqlite3.IntegrityError as error:
            raise PelError(
                f"the concept_id {entity.concept_id!r} occurs twice; merge its records into one"
            ) from error


def _number(staged: sqlite3.Connection, target: sqlite3.Connection) -> dict[str, int]:
    """Copies the staged entities in order of concept id; returns the counts of what was copied."""
    counts = dict.fromkeys(("entities", "aliases", "definitions", "alt_ids"), 0)
    ids = staged.execute("SELECT concept_id FROM staged ORDER BY concept_id")
    rows = ((id, number) for number, (id,) in enumerate(ids))
    target.executemany("INSERT INTO identifier VALUES (?, ?)", rows)
    claimed = 0
    records = staged.execute("SELECT record FROM staged ORDER BY concept_id")
    for number, (record,) in enumerate(records):
        id, name, aliases, types, definition, alt_ids = json.loads(record)
        won = [alt_id for alt_id in alt_ids if _wins(target, alt_id, number)]
        claimed += len(alt_ids) - len(won)
        lists = [json.dumps(texts, ensure_ascii=False) for texts in (aliases, types, won)]
        target.execute(
            "INSERT INTO entity VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, id, name, *lists[:2], definition, lists[2]),
        )
        counts["entities"] += 1
        counts["aliases"] += len(aliases)
        counts["definitions"] += definition is not None
        counts["alt_ids"] += len(won)
    if claimed:
        logger.warning("dropped %d alternative ids that belong to another entity", claimed)
    return counts


def _wins(target: sqlite3.Connection, alt_id: str, number: int) -> bool:
    """Whether an entity gets an alternative id: concept ids and earlier entities go first."""
    query = "INSERT OR IGNORE INTO identifier VALUES (?, ?)"
    return target.execute(query, (alt_id, number)).rowcount == 1


def cleaned(entity: Entity) -> Entity:
    """The entity with printable text, without blank or repeated names, types and alternative ids.

    Runs of control characters become one blank. Raises PelError for an id or a canonical name that
    is blank, and for an id with control characters in it.
    """
    concept_id = _identifier(entity.concept_id, entity)
    name = _printable(entity.canonical_name)
    if not name:
        raise PelError(f"the entity {concept_id!r} has a blank canonical_name; give it a name")
    alt_ids = dict.fromkeys(_identifier(id, entity) for id in entity.alt_ids)
    return Entity(
        concept_id=concept_id,
        canonical_name=name,
        aliases=_distinct(entity.aliases),
        types=_distinct(entity.types),
        definition=_printable(entity.definition or "") or None,
        alt_ids=tuple(id for id in alt_ids if id != concept_id),
    )


def _identifier(id: str, entity: Entity) -> str:
    stripped = id.strip()
    if not stripped or _UNPRINTABLE.search(stripped):
        raise PelError(
            f"the id {id!r} of the entity {entity.canonical_name!r} is blank or holds control "
            "characters; correct it"
        )
    return stripped


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub(" ", text).strip()


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(_printable, texts))))
