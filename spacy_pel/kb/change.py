"""Builds a KB, and adds, updates, merges and removes its entities. Each call is one transaction.

A change adds rows to tables, so its time depends on its size, not on that of the KB. All ids are
concept ids. A new entity may have an alternative id of another as its concept id, and is then found by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..about import __version__
from ..errors import PelError
from .knowledge_base import KnowledgeBase
from .record_writing import StagedRecords, count_entity, new_database
from .records.cleaning import cleaned
from .records.entity import Entity
from .records.merging import joined, merged
from .records.semantic_types import SemanticType
from .settings import KIND, SCHEMA_VERSION, Settings
from .transaction import (
    folder_lock,
    put_in_place,
    temporary_path,
    write_checksums,
    write_settings,
    writing,
)
from .vector_writing import insert_rows, refile_if_wasteful

_ENCODED = 2048  # entities given to the encoder at a time


class RowEncoder(Protocol):
    """Encodes entities as the KB's others were encoded; fingerprint and kind of row must be the KB's."""

    fingerprint: str
    row_kind: str

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """Vectors, float32 [n, dim], and the place of each row's entity in ``entities``, int64 [n]."""


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
    progress: Callable[[Iterable[Entity]], Iterable[Entity]] | None = None,
) -> KnowledgeBase:
    """Writes entities to a KB folder, and opens the KB.

    A KB that is already in the folder is replaced at the very end, together with its vectors. Until
    then, and after any error or interruption, it stays as it was. The entities come in any order. The
    types are theirs and those above; they are read after the entities. ``progress`` wraps the entities.

    Raises:
        PelError: The folder holds something other than a KB, an entity is unusable, there are no
            entities, or the disk is full.
    """
    folder = Path(path).absolute()
    with folder_lock(folder):
        new = temporary_path(folder, ".sqlite")
        stream = progress(entities) if progress else entities
        with closing(StagedRecords(stream)) as staged, new_database(new) as database:
            if not staged.count:
                source = ", ".join(sources) or folder
                raise PelError(f"{source}: no entities", "check that it is the right source")
            counts, digest = staged.write(database, 0, types)
            settings: Settings = {
                "kind": KIND,
                "schema_version": SCHEMA_VERSION,
                "created_by": f"spacy-pel {__version__}",
                "sources": list(sources),
                "counts": counts,
                "change": 0,
                "next_number": staged.count,
                "in_order": staged.count,
                "checksum": digest,
                "vectors": None,
                "mentions": None,
            }
            write_settings(database, settings)
            database.execute("INSERT INTO setting VALUES ('built', ?)", (digest,))
        put_in_place(new, folder)
        write_checksums(folder)
    return KnowledgeBase.open(folder)


def add_entities(
    path: str | Path,
    entities: Iterable[Entity],
    encoder: RowEncoder | None = None,
    *,
    types: Iterable[SemanticType] = (),
    sources: Sequence[str] = (),
) -> ChangeCounts:
    """Adds entities that the KB does not have.

    Until the very end, and after any error or interruption, the KB stays as it was. Readers that
    have the KB open see the change after ``refresh``. A KB without vectors needs no encoder. ``types``
    are those that the source defines.

    Raises:
        PelError: A concept id is in the KB already or occurs twice, an entity is unusable, the
            encoder is missing or not that of the KB, another process is writing to the KB, or the
            disk is full.
    """
    return _change(path, "add", map(cleaned, entities), encoder, types, sources)


def update_entities(
    path: str | Path, entities: Iterable[Entity], encoder: RowEncoder | None = None, **source: Any
) -> ChangeCounts:
    """Replaces the records and vectors of entities that the KB has; arguments as of ``add_entities``.

    Entities whose record is the same are left as they are. PelError if a concept id is not in the KB,
    or as ``add_entities`` raises it.
    """
    return _change(path, "update", map(cleaned, entities), encoder, **source)


def merge_entities(
    path: str | Path,
    entities: Iterable[Entity],
    encoder: RowEncoder | None = None,
    *,
    mapping: Mapping[str, str] | None = None,
    **source: Any,
) -> ChangeCounts:
    """Joins entities with the KB's records of the same concept id, and adds the others.

    A joined record keeps the name and definition that it has in the KB (see ``merging.joined``). The
    arguments are those of ``add_entities``, and ``mapping``: from concept ids of the entities to other
    ids, for example to those of the KB. The errors are those of ``add_entities``, except that concept
    ids may be in the KB.
    """
    return _change(path, "merge", merged([entities], mapping), encoder, **source)


def remove_entities(path: str | Path, ids: Iterable[str]) -> ChangeCounts:
    """Removes the entities with these concept ids, and their vectors.

    PelError if one is not in the KB or is an alternative id, if nothing would be left, or as
    ``add_entities`` raises it.
    """
    return _change(path, "remove", [Entity(id, "") for id in dict.fromkeys(map(str.strip, ids))])


def check_encoder(kb: KnowledgeBase, encoder: RowEncoder | None) -> None:
    """Raises PelError if new entities of the KB would get no vectors, or vectors that do not fit."""
    if not kb.has_vectors:
        return
    if encoder is None:
        raise PelError(
            f"{kb.path}: has vectors, so new entities need vectors too",
            "give the pipeline that made them: --pipeline PIPELINE",
        )
    kb.check_fingerprint(encoder.fingerprint)
    if encoder.row_kind != kb.row_kind:
        raise PelError(
            f"{kb.path}: has one vector for each {kb.row_kind}, but the pipeline makes one for each "
            f"{encoder.row_kind}",
            f"embed it again: python -m spacy pel kb embed {kb.path} PIPELINE",
        )


def _change(
    path: str | Path,
    kind: str,
    entities: Iterable[Entity],
    encoder: RowEncoder | None = None,
    types: Iterable[SemanticType] = (),
    sources: Sequence[str] = (),
) -> ChangeCounts:
    """Applies a change to a KB in one transaction. Nothing is written if it changes nothing."""
    with writing(path) as change, KnowledgeBase.open(change.folder) as kb:
        if kind != "remove":
            check_encoder(kb, encoder)
        numbers: set[int] = set()  # of what leaves the KB, also because a newer record replaces it
        lost: Counter[str] = Counter()
        with closing(StagedRecords(_written(kb, kind, entities, numbers, lost))) as staged:
            n_gone = len(numbers)
            if not staged.count and not n_gone:
                return ChangeCounts()
            if len(kb) + staged.count == n_gone:
                problem = f"{kb.path}: nothing would be left in it"
                raise PelError(problem, "delete the folder instead")
            # Everything that takes long is done before readers may have to wait.
            old, gone, types, rows = change.settings, sorted(numbers), list(types), []
            if kb.has_vectors:
                n_rows_gone = len(kb.rows(gone)[1])
                projection = kb.vectors.projection
                new_entities, first = staged.entities(), old["next_number"]
                while block := list(islice(new_entities, _ENCODED)):
                    vectors, places = encoder.rows(block)
                    rows.append((vectors, places + first))
                    first += len(block)
            with change.transaction() as number:
                counts, digest = staged.write(change.database, old["next_number"], types)
                counts.update(old["counts"])
                counts.subtract(lost)
                removed = [(n, number) for n in gone]
                change.database.executemany("INSERT INTO removed VALUES (?, ?)", removed)
                change.note(
                    digest,
                    gone,
                    counts=dict(counts),
                    next_number=old["next_number"] + staged.count,
                    sources=list(dict.fromkeys([*old["sources"], *sources])),
                )
                if kb.has_vectors:
                    total = old["vectors"]["rows"] + insert_rows(change, rows, projection)
                    change.settings["vectors"] = {**old["vectors"], "rows": total - n_rows_gone}
        refile_if_wasteful(change)
        if not staged.count:
            return ChangeCounts(removed=n_gone)
        return ChangeCounts(staged.count - n_gone, n_gone)


def _written(
    kb: KnowledgeBase, kind: str, entities: Iterable[Entity], gone: set[int], lost: Counter[str]
) -> Iterator[Entity]:
    """The entities that a change writes. Notes the number of what leaves the KB, and counts it."""
    for entity in entities:
        id = entity.concept_id
        number = kb.number(id)
        present = None if number is None else kb.entities([number])[0]
        if present and present.concept_id != id:
            if kind in ("update", "remove"):
                raise PelError(
                    f"{id!r} is an alternative id of {present.concept_id!r} in {kb.path}",
                    "give the concept id",
                )
            present = None
        if present and kind == "add":
            raise PelError(
                f"{id!r} is in {kb.path} already",
                "use kb change update to replace its record, or kb change merge to add to it",
            )
        if present is None and kind in ("update", "remove"):
            add = "use kb change add or kb change merge to add it"
            raise PelError(
                f"{id!r} is not in {kb.path}", add if kind == "update" else "check the id"
            )
        if present and kind == "merge":
            entity = cleaned(joined(present, entity))
        if present == entity:
            continue
        if present:
            gone.add(number)
            count_entity(lost, present)
        if kind != "remove":
            yield entity
