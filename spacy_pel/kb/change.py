"""Change the entities and learnt mentions of a KB, each call in one transaction.

The time of a change depends on its size, not on that of the KB. All ids are concept ids. The concept id of a
new entity takes precedence over an equal alternative id of another.
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from .build import count_records, united
from .knowledge_base import KnowledgeBase
from .lookup_tables import write_records
from .mentions import MentionPassage, MentionWeight
from .records.entity import Entity, merged, renamed
from .records.semantic_types import SemanticType
from .store import entity_row
from .transaction import Writing, writing
from .vectors.writing import Encoder, encoded_mentions, insert_rows

DEFAULT_WEIGHT = MentionWeight(0.2, 0.5)  # until a weight is fitted
_BATCH_SIZE = 2048  # entities encoded at a time


class ChangeCounts(NamedTuple):
    """The numbers of added, updated, and removed entities."""

    added: int = 0
    updated: int = 0
    removed: int = 0


def change_entities(
    path: str | Path,
    kind: str,
    entities: Iterable[Entity],
    encoder: Encoder | None = None,
    *,
    remove: Iterable[str] = (),
    types: Iterable[SemanticType] = (),
    sources: Sequence[str] = (),
    mapping: Mapping[str, str] = MappingProxyType({}),
    acronyms: Mapping[str, Sequence[tuple[str, str, int]]] = MappingProxyType({}),
) -> ChangeCounts:
    """Add, replace, merge, and remove entities of a KB.

    After an error or an interruption, the KB is unchanged. Open readers see the change after ``refresh``.
    Entities with the same concept id are ``merged``.

    Args:
        path: The folder of the KB.
        kind: "add": the KB must not have the ids. "update": the KB must have the ids; records that differ are
            replaced. "put": records that differ are replaced, others are added. "merge": entities are
            ``merged`` with the records of the KB, or added.
        entities: The records.
        encoder: The encoder of the KB. A KB without vectors needs none.
        remove: Concept ids of entities to remove.
        types: Types to add to those of the KB.
        sources: Sources to add to those of the KB.
        mapping: From concept ids of the entities to the ids that replace them (``renamed``).
        acronyms: By source: an acronym, the concept id of an entity, and the number of texts that define
            it so. They replace those of the source (``KnowledgeBase.definitions``).

    Raises:
        PelError: An id is missing or already present, an entity is unusable, no entity would remain, the
            encoder is missing or not that of the KB, another process is writing, or the disk is full.
    """
    with writing(path) as change, KnowledgeBase.open(change.folder) as kb:
        given = list(united(renamed(entities, mapping) if mapping else entities))
        if given and kb.has_vectors:
            encoder = _checked(kb, encoder, "new entities")
            if encoder.index_unit != kb.index_unit:
                kinds = f"each {kb.index_unit}, not {encoder.index_unit}"
                remedy = f"embed it again: python -m spacy pel kb embed {kb.path} PIPELINE"
                raise PelError(f"{kb.path}: has one vector for {kinds}", remedy)
        new: list[Entity] = []
        replaced: list[int] = []
        for entity, number in zip(given, kb.numbers_of([e.concept_id for e in given]).tolist()):
            present = kb.entities([number])[0] if number >= 0 else None
            if present is None and kind == "update":
                raise _missing(kb, entity.concept_id)
            if present and kind == "add":
                remedy = "kb change update to replace its record, or kb change merge to add to it"
                raise PelError(f"{entity.concept_id!r} is in {kb.path} already", f"use {remedy}")
            if present and kind == "merge":
                entity = merged(present, entity)
            if present != entity:
                new.append(entity)
                if present:
                    replaced.append(number)
        gone = list(dict.fromkeys(map(str.strip, remove)))
        numbers = kb.numbers_of(gone).tolist()
        if -1 in numbers:
            raise _missing(kb, gone[numbers.index(-1)])
        removed = sorted({*replaced, *numbers})
        if not new and not removed and not acronyms:
            return ChangeCounts()
        if len(kb) + len(new) == len(removed):
            raise PelError(f"{kb.path}: nothing would be left", "delete the folder instead")
        # The slow steps precede the transaction, which may make readers wait.
        old, types, first = change.settings, list(types), kb.settings["next_number"]
        batches: list[tuple[np.ndarray, np.ndarray]] = []
        if kb.has_vectors:
            n_rows_removed, projection = len(kb.rows(removed)[1]), kb.vectors.base.projection
            for start in range(0, len(new), _BATCH_SIZE):
                assert encoder is not None  # checked above
                vectors, places = encoder.rows(new[start : start + _BATCH_SIZE])
                batches.append((vectors, places + first + start))
        with change.transaction() as number:
            digest = write_records(change.database, first, map(entity_row, new), types)
            executemany = change.database.executemany
            executemany("INSERT INTO removed VALUES (?, ?)", [(n, number) for n in removed])
            counts: Counter[str] = Counter(old["counts"])
            counts.update(count_records(change.database, "number >= ?", first))
            is_removed = "number IN (SELECT number FROM removed WHERE change = ?)"
            counts.subtract(count_records(change.database, is_removed, number))
            counted = [(name, json.dumps(rows)) for name, rows in acronyms.items()]
            executemany("INSERT OR REPLACE INTO setting VALUES (?, ?)", counted)
            known = list(dict.fromkeys([*old["sources"], *sources]))
            about = {"counts": counts, "next_number": first + len(new), "sources": known}
            change.note(digest, removed, *counted, **about)
            if kb.has_vectors:
                total = old["vectors"]["rows"] + insert_rows(change, batches, projection)
                change.settings["vectors"] = {**old["vectors"], "rows": total - n_rows_removed}
        return ChangeCounts(len(new) - len(replaced), len(replaced), len(numbers))


def remove_entities(path: str | Path, ids: Iterable[str]) -> ChangeCounts:
    """Remove the entities with these concept ids, and their vectors; see ``change_entities``."""
    return change_entities(path, "update", (), remove=ids)


def learn_mentions(
    path: str | Path, source: str, passages: Iterable[MentionPassage], encoder: Encoder | None
) -> int:
    """Replace the mentions of a source in a KB, and return their number.

    Raises:
        PelError: There is no mention, the encoder is not that of the KB, or ``change_entities`` raises it.
    """
    with writing(path) as change:
        if change.settings["vectors"]:
            with KnowledgeBase.open(change.folder) as kb:
                encoder = _checked(kb, encoder, "mentions")
                if any(other != source for other in kb.mentions.sources):
                    kb.mentions.check_fingerprint(encoder.mention_fingerprint, change.folder)
        kept = [
            p._replace(mentions=tuple(dict.fromkeys(p.mentions))) for p in passages if p.mentions
        ]
        if not kept:
            problem = f"{source}: no mention has an entity in {change.folder}"
            raise PelError(problem, "give another corpus")
        vectors: Iterator[bytes | None] = repeat(None)
        if change.settings["vectors"] and encoder:
            vectors = iter(list(encoded_mentions(encoder, kept)))
        crc = 0
        insert = "INSERT INTO passage (source, document, text) VALUES (?, ?, ?)"
        into = "INSERT INTO mention (passage, start, stop, concept_id, vector)"
        with change.transaction() as number:
            _delete(change, source)
            for document, text, mentions in kept:
                crc = zlib.crc32(json.dumps([document, text, mentions]).encode(), crc)
                passage = change.database.execute(insert, (source, document, text)).lastrowid
                rows = [(passage, *mention, next(vectors)) for mention in mentions]
                change.database.executemany(f"{into} VALUES (?, ?, ?, ?, ?)", rows)
            fingerprint = encoder.mention_fingerprint if encoder else None
            counts = _note_mentions(change, crc, fingerprint=fingerprint, changed=number)
    return counts[source]


def forget_mentions(path: str | Path, source: str) -> int:
    """Remove the mentions of a source from a KB, and return their number; PelError without any."""
    with writing(path) as change:
        known = (change.settings["mentions"] or {"counts": {}})["counts"]
        if source not in known:
            problem = f"{change.folder}: has learnt no mentions from {source!r}"
            raise PelError(problem, f"its sources: {', '.join(known) or 'none'}")
        with change.transaction() as number:
            _delete(change, source)
            _note_mentions(change, changed=number)
    return int(known[source])


def set_mention_weight(path: str | Path, weight: MentionWeight) -> None:
    """Set the weight of the mentions of a KB."""
    with writing(path) as change, change.transaction():
        _note_mentions(change, **{name: float(x) for name, x in weight._asdict().items()})


def _delete(change: Writing, source: str) -> None:
    of_source = "SELECT id FROM passage WHERE source = ?"
    change.database.execute(f"DELETE FROM mention WHERE passage IN ({of_source})", (source,))
    change.database.execute("DELETE FROM passage WHERE source = ?", (source,))


def _note_mentions(change: Writing, *parts: object, **about: object) -> dict[str, int]:
    """Update the settings of the mentions, and return the number of mentions by source."""
    query = "SELECT source, count(*) FROM mention JOIN passage ON passage.id = passage GROUP BY 1"
    counts = dict(change.database.execute(query))
    old = change.settings["mentions"] or DEFAULT_WEIGHT._asdict()
    new = {**old, **about, "counts": counts} if counts else None
    change.note(new, *parts, mentions=new)
    return counts


def _missing(kb: KnowledgeBase, id: str) -> PelError:
    remedy = "check the id, or use kb change add or kb change merge to add it"
    if id in kb:
        remedy = f"it is an alternative id of {kb[id].concept_id!r}: use that"
    return PelError(f"{id!r} is not in {kb.path}", remedy)


def _checked(kb: KnowledgeBase, encoder: Encoder | None, of: str) -> Encoder:
    if encoder is None:
        problem = f"{kb.path}: has vectors, so {of} need vectors too"
        raise PelError(problem, "give the pipeline that made them: --pipeline PIPELINE")
    kb.check_fingerprint(encoder.fingerprint)
    return encoder
