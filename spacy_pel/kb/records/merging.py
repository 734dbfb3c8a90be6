"""Joins the records that stand for one entity, within a source and across sources."""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from operator import itemgetter

from ...errors import PelError
from .entity import Entity, cleaned

_LISTS = ("aliases", "types", "alt_ids", "parents", "retired_ids", "xrefs", "sources")
_SETTINGS = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
_PREFIXED = re.compile(r"(?:UMLS(?:_CUI)?:(C\d{7})|(?:MESH|MSH):([CD]\d+))", re.IGNORECASE)


def plain_id(id: str) -> str:
    """An identifier as its vocabulary writes it: "C0012634" for "UMLS:C0012634", and so for MeSH."""
    match = _PREFIXED.fullmatch(id)
    return (match[1] or match[2]) if match else id


def joined(first: Entity, second: Entity) -> Entity:
    """One record of two that stand for the same entity.

    The id, name and definition are those of the first; if it has no definition, that of the second.
    The second's id becomes an alternative id, and its name an alias. Lists are united in order.
    """
    return _all_joined([first, second])


def _all_joined(entities: Iterable[Entity]) -> Entity:
    """One record of one or more, see ``joined``; in time that grows with what they hold."""
    first, *others = entities
    lists = {name: dict.fromkeys(getattr(first, name)) for name in _LISTS}
    definition = first.definition
    for entity in others:
        if entity.canonical_name != first.canonical_name:
            lists["aliases"][entity.canonical_name] = None
        lists["alt_ids"][entity.concept_id] = None
        for name, united in lists.items():
            united.update(dict.fromkeys(getattr(entity, name)))
        definition = definition or entity.definition
    lists["alt_ids"].pop(first.concept_id, None)
    fields = {name: tuple(united) for name, united in lists.items()}
    return first._replace(**fields, definition=definition)


def united(entities: Iterable[Entity]) -> Iterator[Entity]:
    """The entities sorted, on disk, by concept id. Those with the same id are joined in the order given.

    PelError if an id or name is unusable, or there is no space to sort.
    """
    with _scratch("CREATE TABLE record (id TEXT, record TEXT)") as database:
        rows = ((entity.concept_id, json.dumps(entity)) for entity in map(cleaned, entities))
        database.executemany("INSERT INTO record VALUES (?, ?)", rows)
        yield from _joined_rows(database.execute("SELECT * FROM record ORDER BY id, rowid"))


def merged(
    sources: Sequence[Iterable[Entity]], mapping: Mapping[str, str] | None = None
) -> Iterator[Entity]:
    """The entities of several sources sorted, on disk, by concept id, each entity once.

    The mapping, from ids to ids of the same entities, replaces concept ids. It is followed to its end
    (``ends_of``). Then the records with the same concept id are ``joined``, those of earlier sources
    first, and within a source those with smaller ids first. Replaced ids become alternative ids, and
    parents get their new ids. Alternative ids and cross-references do not join records.

    PelError if an id occurs twice in one source, an id or name is unusable, or there is no space to sort.
    """
    ends = ends_of(mapping or {})
    with _scratch(_MERGING) as database:
        for number, entities in enumerate(sources):
            for entity in map(cleaned, entities):
                id = ends.get(entity.concept_id, entity.concept_id)
                parents = dict.fromkeys(ends.get(parent, parent) for parent in entity.parents)
                parents.pop(id, None)  # it is joined with a parent
                record = json.dumps(entity._replace(parents=tuple(parents)))
                try:
                    row = (id, number, entity.concept_id, record)
                    database.execute("INSERT INTO record VALUES (?, ?, ?, ?)", row)
                except sqlite3.IntegrityError as error:
                    problem = f"{entity.concept_id!r} occurs twice in source {number + 1}"
                    raise PelError(
                        f"the concept_id {problem}", "merge its records into one"
                    ) from error
        ordered = "SELECT id, record FROM record ORDER BY id, source, original"
        yield from _joined_rows(database.execute(ordered))


_MERGING = """
CREATE TABLE record (
    id TEXT, source INTEGER, original TEXT, record TEXT, UNIQUE (original, source)
);
"""


def _joined_rows(rows: Iterable[tuple[str, str]]) -> Iterator[Entity]:
    """An entity of each id of the rows (id, record), which are sorted by id."""
    for id, group in groupby(rows, key=itemgetter(0)):
        yield _all_joined(_renamed(json.loads(record), id) for _, record in group)


def _renamed(record: list, id: str) -> Entity:
    """An entity with another concept id. Its own becomes an alternative id."""
    entity = Entity(*(tuple(value) if isinstance(value, list) else value for value in record))
    if entity.concept_id == id:
        return entity
    alt_ids = dict.fromkeys((entity.concept_id, *entity.alt_ids))
    alt_ids.pop(id, None)
    return entity._replace(concept_id=id, alt_ids=tuple(alt_ids))


def ends_of(mapping: Mapping[str, str]) -> dict[str, str]:
    """The id that each id of a mapping leads to: of a -> b -> c it is c; of a cycle, its smallest id."""
    ends: dict[str, str] = {}
    for id in mapping:
        path: dict[str, int] = {}  # the ids passed, each with its place
        while id in mapping and id not in ends and id not in path:
            path[id] = len(path)
            id = mapping[id]
        if id in path:
            id = min(list(path)[path[id] :])
        ends.update(dict.fromkeys(path, ends.get(id, id)))
    return ends


@contextmanager
def _scratch(schema: str) -> Iterator[sqlite3.Connection]:
    """An empty database in a temporary file."""
    try:
        with closing(sqlite3.connect("", isolation_level=None)) as database:
            database.executescript(f"{_SETTINGS} {schema}; BEGIN")
            yield database
    except sqlite3.OperationalError as error:
        raise PelError(
            f"the entities cannot be sorted in {tempfile.gettempdir()} ({error})",
            "free some space there, or set TMPDIR to a larger folder",
        ) from error
