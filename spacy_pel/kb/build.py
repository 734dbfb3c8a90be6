"""Build a KB from entities."""

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from ..about import __version__
from ..errors import PelError
from .knowledge_base import KnowledgeBase
from .lookup_tables import QUICK, VALUES, write_tables
from .records.entity import Entity, cleaned, merged
from .records.semantic_types import SemanticType
from .store import FIELDS, KIND, SCHEMA_VERSION, Settings, entity_of, entity_row
from .transaction import folder_lock, put_in_place, temporary_path, write_settings

_COUNTED = ("aliases", "alt_ids", "parents", "retired_ids", "xrefs")


def build_kb(
    entities: Iterable[Entity],
    path: str | Path,
    *,
    types: Iterable[SemanticType] = (),
    sources: Sequence[str] = (),
    left_out: Iterable[Mapping[str, int]] = (),
    word_forms: bool = False,
) -> KnowledgeBase:
    """Write entities to a KB folder, and open the KB.

    An existing KB and its vectors are replaced in the last step; an error or an interruption before it leaves
    them unchanged.

    Args:
        entities: The entities, in any order. Those with the same concept id are ``merged``.
        path: The folder.
        types: The types that the sources define, read after the entities.
        sources: The names of the sources.
        left_out: The counts of what each source left out (``Source``), read after the entities.
        word_forms: Whether names are also found in other forms of their words (``word_forms``).

    Raises:
        PelError: The folder holds other files, there is no entity or an unusable one, or the disk is full.
    """
    folder = Path(path).absolute()
    with folder_lock(folder):
        new = temporary_path(folder, ".sqlite")
        with closing(sqlite3.connect(new, isolation_level=None)) as database:
            digest = write_tables(database, sorted_rows(entities), types)
            counts = count_records(database, "true")
            if not counts["entities"]:
                source = ", ".join(sources) or folder
                raise PelError(f"{source}: no entities", "check that it is the right source")
            settings: Settings = {
                "kind": KIND,
                "schema_version": SCHEMA_VERSION,
                "created_by": f"spacy-pel {__version__}",
                "sources": list(sources),
                "left_out": sum(map(Counter, left_out), Counter()),
                "counts": counts,
                "checksum": digest,
                "change": 0,
                "next_number": counts["entities"],
                "in_order": counts["entities"],
                "word_forms": word_forms,
                "vectors": None,
                "mentions": None,
            }
            write_settings(database, settings)
            database.execute("INSERT INTO setting VALUES ('built', ?)", (digest,))
            database.execute("COMMIT")
        put_in_place(new, folder)
    return KnowledgeBase.open(folder)


def united(entities: Iterable[Entity]) -> Iterator[Entity]:
    """Yield the entities, cleaned, ``merged`` if they have the same concept id, and sorted by it.

    Raises:
        PelError: An entity is unusable, or the scratch file for sorting does not fit on the disk.
    """
    return map(entity_of, sorted_rows(entities))


def sorted_rows(entities: Iterable[Entity]) -> Iterator[Sequence[str | None]]:
    """Yield the records of ``united`` as the KB stores them."""
    try:
        with closing(sqlite3.connect("", isolation_level=None)) as scratch:
            scratch.executescript(f"{QUICK} CREATE TABLE entity ({FIELDS}); BEGIN")
            rows = map(entity_row, map(cleaned, entities))
            scratch.executemany(f"INSERT INTO entity VALUES ({VALUES})", rows)
            ordered = scratch.execute("SELECT * FROM entity ORDER BY concept_id, rowid")
            for _, group in groupby(ordered, key=itemgetter(0)):
                first, *others = group
                if others:
                    first = entity_row(merged(*map(entity_of, (first, *others))))
                yield first
    except sqlite3.OperationalError as error:
        problem = f"the entities cannot be sorted in {tempfile.gettempdir()} ({error})"
        remedy = "free some space there, or set TMPDIR to a larger folder"
        raise PelError(problem, remedy) from error


def count_records(database: sqlite3.Connection, condition: str, *parameters: int) -> dict[str, int]:
    """Return the counts for a KB's settings over the records that meet an SQL condition."""
    sums = [f"ifnull(sum(json_array_length({name})), 0)" for name in _COUNTED]
    query = f"SELECT count(*), count(definition), {', '.join(sums)} FROM entity WHERE {condition}"
    counts = database.execute(query, parameters).fetchone()
    scopes = database.execute(
        "SELECT json_extract(value, '$[1]') || '_names', count(*) FROM entity, json_each(aliases) "
        f"WHERE type = 'array' AND {condition} GROUP BY 1",
        parameters,
    )
    return dict(zip(("entities", "definitions", *_COUNTED), counts)) | dict(scopes)
