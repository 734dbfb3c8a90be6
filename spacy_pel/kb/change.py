"""Change the entities and learnt mentions of a KB. Each call is one transaction.

The time of a change depends on its size, not on that of the KB. All ids are concept ids. A new entity
may have an alternative id of another as its concept id, and is then found by it.
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ..errors import PelError
from .build import count_records, united
from .knowledge_base import KnowledgeBase
from .lookup_tables import write_records
from .mentions import MentionPassage, MentionWeight
from .records.entity import Entity, joined, renamed
from .records.semantic_types import SemanticType
from .store import entity_row
from .transaction import Writing, writing
from .vectors.writing import Encoder, encoded_mentions, insert_rows

UNFITTED = MentionWeight(0.2, 0.5)  # how much mentions count before that is fitted
_ENCODED = 2048  # entities given to the encoder at a time
_COUNTED = ("aliases", "alt_ids", "parents", "retired_ids", "xrefs")


class ChangeCounts(NamedTuple):
    """The number of entities that were added, updated and removed."""

    added: int = 0
    updated: int = 0
    removed: int = 0


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
                if encoder.index_unit != kb.index_unit:
                    kinds = f"each {kb.index_unit}, not {encoder.index_unit}"
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
            digest = write_records(change.database, first, map(entity_row, new), types)
            executemany = change.database.executemany
            executemany("INSERT INTO removed VALUES (?, ?)", [(n, number) for n in sorted(gone)])
            counts = Counter(old["counts"])
            counts.update(count_records(change.database, "number >= ?", first))
            removed = "number IN (SELECT number FROM removed WHERE change = ?)"
            counts.subtract(count_records(change.database, removed, number))
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
        with change.transaction() as number:
            _delete(change, source)
            for document, text, mentions in kept:
                crc = zlib.crc32(json.dumps([document, text, mentions]).encode(), crc)
                passage = change.database.execute(insert, (source, document, text)).lastrowid
                rows = [(passage, *mention, next(made, None)) for mention in mentions]
                change.database.executemany(f"{into} VALUES (?, ?, ?, ?, ?)", rows)
            fingerprint = encoder.mention_fingerprint if encoder else None
            counts = _note_mentions(change, crc, fingerprint=fingerprint, changed=number)
    return counts[source]


def forget_mentions(path: str | Path, source: str) -> int:
    """Takes the mentions of a source out of a KB, and returns their number; PelError if it has none."""
    with writing(path) as change:
        known = (change.settings["mentions"] or {"counts": {}})["counts"]
        if source not in known:
            problem = f"{change.folder}: has learnt no mentions from {source!r}"
            raise PelError(problem, f"its sources: {', '.join(known) or 'none'}")
        with change.transaction() as number:
            _delete(change, source)
            _note_mentions(change, changed=number)
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
