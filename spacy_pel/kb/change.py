"""Builds a KB, and changes its entities and learnt mentions. Each call is one transaction.

The time of a change depends on its size, not on that of the KB. All ids are concept ids. A new entity
may have an alternative id of another as its concept id, and is then found by it.
"""

import hashlib
import json
import sqlite3
import tempfile
import zlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..about import __version__
from ..errors import PelError
from .knowledge_base import KnowledgeBase
from .mentions import MentionPassage, MentionWeight
from .records.entity import Entity, cleaned, joined, renamed
from .records.names import name_hash, normalised, searched_text
from .records.semantic_types import SemanticType
from .store import FIELDS, KIND, POSTING, SCHEMA, SCHEMA_VERSION, entity_of, entity_row, record_crc
from .transaction import Writing, folder_lock, put_in_place, temporary_path, write_settings, writing
from .vector_writing import Encoder, encoded_mentions, insert_rows

UNFITTED = MentionWeight(0.2, 0.5)  # how much mentions count before that is fitted
_ENCODED = 2048  # entities given to the encoder at a time
_COUNTED = ("aliases", "alt_ids", "parents", "retired_ids", "xrefs")
_QUICK = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
_VALUES = ", ".join("?" * len(Entity._fields))
_CHUNK = 1 << 16  # hashes of names written at a time
_WORDS_HELD = 1 << 24  # bytes of the index of words in memory before they are written


class ChangeCounts(NamedTuple):
    """The number of entities that were added, updated and removed."""

    added: int = 0
    updated: int = 0
    removed: int = 0


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
            digest = _write(database, 0, _sorted_rows(entities), types)
            counts = _counts(database, "true")
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
            settings["in_any_order"] = in_any_order
            write_settings(database, settings)
            database.execute("INSERT INTO setting VALUES ('built', ?)", (digest,))
            database.execute("INSERT INTO word (word) VALUES ('optimize')")
            database.executemany(set_option, [("automerge", 4), ("hashsize", 1 << 20)])
            database.execute("COMMIT")
        put_in_place(new, folder)
    return KnowledgeBase.open(folder)


def change_entities(
    path: str | Path,
    kind: str,
    entities: Iterable[Entity],
    encoder: Encoder | None = None,
    *,
    types: Iterable[SemanticType] = (),
    sources: Sequence[str] = (),
    mapping: Mapping[str, str] = MappingProxyType({}),
    acronyms: Mapping[str, Sequence[tuple[str, str, int]]] = MappingProxyType({}),
) -> ChangeCounts:
    """Adds entities to a KB, or replaces or removes some that it has.

    After any error or interruption, the KB stays as it was. Readers that have it open see the change
    after ``refresh``. Entities with the same concept id are ``joined``.

    Args:
        kind: "add": the KB has none of the ids. "update": it has all of them, and records that differ
            are replaced. "merge": entities are ``joined`` with its records, or added. "remove".
        entities: The records; of those to remove only the concept ids count.
        encoder: Makes their vectors. A KB without vectors needs none.
        types: What is added to those of the KB.
        sources: The same.
        mapping: The ids that replace concept ids of the entities (``renamed``).
        acronyms: By source: an acronym, the concept id of an entity, and how many texts of the source
            define it so. They take the place of those of this source (``KnowledgeBase.definitions``).

    Raises:
        PelError: The KB has or lacks an id, an entity is unusable, nothing would be left, the encoder
            is missing or not that of the KB, another process is writing to it, or the disk is full.
    """
    with writing(path) as change, KnowledgeBase.open(change.folder) as kb:
        if kind != "remove":
            entities = united(renamed(entities, mapping) if mapping else entities)
            if kb.has_vectors:
                _check_encoder(kb, encoder, "new entities")
                if encoder.row_kind != kb.row_kind:
                    kinds = f"each {kb.row_kind}, not {encoder.row_kind}"
                    remedy = f"embed it again: python -m spacy pel kb embed {kb.path} PIPELINE"
                    raise PelError(f"{kb.path}: has one vector for {kinds}", remedy)
        given = list(entities)
        new: list[Entity] = []
        gone: list[int] = []  # what leaves the KB, also because a newer record replaces it
        for entity, number in zip(given, kb.numbers_of([e.concept_id for e in given]).tolist()):
            id, present = entity.concept_id, None
            if number >= 0:
                [present] = kb.entities([number])
            if present is None and kind in ("update", "remove"):
                remedy = "check the id, or use kb change add or kb change merge to add it"
                if id in kb:
                    remedy = f"it is an alternative id of {kb[id].concept_id!r}: give that"
                raise PelError(f"{id!r} is not in {kb.path}", remedy)
            if present and kind == "add":
                remedy = "kb change update to replace its record, or kb change merge to add to it"
                raise PelError(f"{id!r} is in {kb.path} already", f"use {remedy}")
            if present and kind == "merge":
                entity = joined(present, entity)
            if present and present != entity:
                gone.append(number)
            if present != entity and kind != "remove":
                new.append(entity)
        if not new and not gone and not acronyms:
            return ChangeCounts()
        if len(kb) + len(new) == len(gone):
            raise PelError(f"{kb.path}: nothing would be left", "delete the folder instead")
        # Everything that takes long is done before readers may have to wait.
        old, types, rows, first = change.settings, list(types), [], kb.settings["next_number"]
        if kb.has_vectors:
            n_rows_gone, projection = len(kb.rows(gone)[1]), kb.vectors.filed.projection
            for start in range(0, len(new), _ENCODED):
                vectors, places = encoder.rows(new[start : start + _ENCODED])
                rows.append((vectors, places + first + start))
        with change.transaction() as number:
            digest = _write(change.database, first, map(entity_row, new), types)
            executemany = change.database.executemany
            executemany("INSERT INTO removed VALUES (?, ?)", [(n, number) for n in sorted(gone)])
            counts = Counter(old["counts"])
            counts.update(_counts(change.database, "number >= ?", first))
            removed = "number IN (SELECT number FROM removed WHERE change = ?)"
            counts.subtract(_counts(change.database, removed, number))
            counted = [(name, json.dumps(rows)) for name, rows in acronyms.items()]
            executemany("INSERT OR REPLACE INTO setting VALUES (?, ?)", counted)
            known = list(dict.fromkeys([*old["sources"], *sources]))
            about = {"counts": counts, "next_number": first + len(new), "sources": known}
            change.note(digest, sorted(gone), *counted, **about)
            if kb.has_vectors:
                total = old["vectors"]["rows"] + insert_rows(change, rows, projection)
                change.settings["vectors"] = {**old["vectors"], "rows": total - n_rows_gone}
        if kind == "remove":
            return ChangeCounts(removed=len(gone))
        return ChangeCounts(len(new) - len(gone), len(gone))


def remove_entities(path: str | Path, ids: Iterable[str]) -> ChangeCounts:
    """Removes the entities with these concept ids, and their vectors; see ``change_entities``."""
    gone = [Entity(id, "") for id in dict.fromkeys(map(str.strip, ids))]
    return change_entities(path, "remove", gone)


def learn_mentions(
    path: str | Path, source: str, passages: Iterable[MentionPassage], encoder: Encoder | None
) -> int:
    """Gives a KB the mentions of a source, in place of those it had of it; returns their number.

    PelError if there is no mention, or the encoder does not fit, or as of ``change_entities``.
    """
    with writing(path) as change:
        if change.settings["vectors"]:
            with KnowledgeBase.open(change.folder) as kb:
                _check_encoder(kb, encoder, "mentions")
                if any(other != source for other in kb.mentions.sources):
                    kb.mentions.check_fingerprint(encoder.mention_fingerprint, change.folder)
        kept = [
            p._replace(mentions=tuple(dict.fromkeys(p.mentions))) for p in passages if p.mentions
        ]
        if not kept:
            problem = f"{source}: no mention has an entity in {change.folder}"
            raise PelError(problem, "give another corpus")
        made = iter(list(encoded_mentions(encoder, kept)) if change.settings["vectors"] else [])
        crc = 0
        insert = "INSERT INTO passage (source, document, text) VALUES (?, ?, ?)"
        into = "INSERT INTO mention (passage, start, stop, concept_id, vector)"
        with change.transaction():
            _delete(change, source)
            for document, text, mentions in kept:
                crc = zlib.crc32(json.dumps([document, text, mentions]).encode(), crc)
                passage = change.database.execute(insert, (source, document, text)).lastrowid
                rows = [(passage, *mention, next(made, None)) for mention in mentions]
                change.database.executemany(f"{into} VALUES (?, ?, ?, ?, ?)", rows)
            fingerprint = encoder.mention_fingerprint if encoder else None
            counts = _note_mentions(change, crc, fingerprint=fingerprint)
    return counts[source]


def forget_mentions(path: str | Path, source: str) -> int:
    """Takes the mentions of a source out of a KB, and returns their number; PelError if it has none."""
    with writing(path) as change:
        known = (change.settings["mentions"] or {"counts": {}})["counts"]
        if source not in known:
            problem = f"{change.folder}: has learnt no mentions from {source!r}"
            raise PelError(problem, f"its sources: {', '.join(known) or 'none'}")
        with change.transaction():
            _delete(change, source)
            _note_mentions(change)
    return known[source]


def set_mention_weight(path: str | Path, weight: MentionWeight) -> None:
    """Sets how much the mentions of a KB count, which has some."""
    with writing(path) as change, change.transaction():
        _note_mentions(change, **{name: float(x) for name, x in weight._asdict().items()})


def _delete(change: Writing, source: str) -> None:
    of_source = "SELECT id FROM passage WHERE source = ?"
    change.database.execute(f"DELETE FROM mention WHERE passage IN ({of_source})", (source,))
    change.database.execute("DELETE FROM passage WHERE source = ?", (source,))


def _note_mentions(change: Writing, *parts: object, **about: object) -> dict[str, int]:
    """Notes the mentions that the KB has now; returns their number by source."""
    query = "SELECT source, count(*) FROM mention JOIN passage ON passage.id = passage GROUP BY 1"
    counts = dict(change.database.execute(query))
    old = change.settings["mentions"] or UNFITTED._asdict()
    new = {**old, **about, "counts": counts} if counts else None
    change.note(new, *parts, mentions=new)
    return counts


def _check_encoder(kb: KnowledgeBase, encoder: Encoder | None, of: str) -> None:
    if encoder is None:
        problem = f"{kb.path}: has vectors, so {of} need vectors too"
        raise PelError(problem, "give the pipeline that made them: --pipeline PIPELINE")
    kb.check_fingerprint(encoder.fingerprint)


# Records, and the tables by which they are looked up: by id, name, word, type and source.


def united(entities: Iterable[Entity]) -> Iterator[Entity]:
    """The entities, cleaned and sorted by concept id. Those with the same are ``joined``, in the order given.

    PelError if an entity is unusable, or there is no space to sort them in a scratch file.
    """
    return map(entity_of, _sorted_rows(entities))


def _sorted_rows(entities: Iterable[Entity]) -> Iterator[Sequence[str | None]]:
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


def _write(
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
        text = searched_text(" ".join(names))
        database.execute("INSERT INTO word (rowid, names) VALUES (?, ?)", (number, text))
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


def _counts(database: sqlite3.Connection, which: str, *parameters: int) -> dict[str, int]:
    """The counts of a KB's settings, of its records for which a condition of SQL holds."""
    sums = [f"ifnull(sum(json_array_length({name})), 0)" for name in _COUNTED]
    query = f"SELECT count(*), count(definition), {', '.join(sums)} FROM entity WHERE {which}"
    counts = database.execute(query, parameters).fetchone()
    return dict(zip(("entities", "definitions", *_COUNTED), counts))
