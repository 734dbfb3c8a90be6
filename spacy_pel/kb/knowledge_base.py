"""The one way into a KB folder: its records, its vectors and its mentions behind one class."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, reduce
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import PelError
from .checks import Report, faults, foreign_files
from .mentions import KnownMentions
from .name_finder import NameFinder, kept_table, name_table
from .names_by_words import word_table
from .records.entity import Entity
from .records.names import american, likeness, name_hash, normalised, words
from .records.semantic_types import SemanticType, SemanticTypeTree, known_types, with_descendants
from .scispacy_mappings import CuiEntity, EntitiesById, IdsByName
from .store import KB_FILE, POSTING, Settings, Store, stored_number, stored_text, vector_files
from .stored_vectors import StoredVectors
from .transaction import NAMES_PREFIX, checked_settings, lock_for_reading
from .vectors.index import Candidates

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # a link may have come after the folder was checked
_KEPT = 8  # filters whose masks are kept; a mask takes one byte an entity
_BLOCK = 4096  # ids looked up at a time
_COMPARED = 10_000  # the most entities that a full-text look-up compares with its text
_OF_TYPE = "SELECT numbers FROM typed WHERE type = ?"
_OF_SOURCE = "SELECT numbers FROM sourced WHERE source = ?"


class SearchFilter(NamedTuple):
    """The entities that a search may return. Every field that is given must hold.

    Attributes:
        types: Names or codes of semantic types. An entity matches if it has one of them or a type
            below one of them in the tree. "" stands for entities without a type.
        sources: Names of sources, as in ``Entity.sources``.
        ids: Concept ids, alternative ids or retired ids. Ids that the KB does not have are ignored.
    """

    types: Collection[str] = ()
    sources: Collection[str] = ()
    ids: Collection[str] = ()


class KnowledgeBase:
    """A knowledge base: entities, each with a number, and the vectors that stand for them.

    A KB is opened, not loaded. Whatever is written to the folder, the KB stays as it was when it was
    opened, until ``refresh``. It may be used after a fork, and pickled: a copy opens the same folder.

    ``path`` is the folder, and ``settings`` what the KB says of itself: "counts", "sources", "vectors",
    and so on. "checksum" is another one after each change. New and changed entities get new numbers,
    and no number is used again. So take the numbers in use from ``numbers``, and store ids.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self._see(*_seen(self.path))

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = False) -> KnowledgeBase:
        """The KB of a folder; PelError if there is none in it, or it is not whole.

        With ``verify`` every byte is checked first, as ``pel kb verify`` does. Otherwise settings and
        sizes of files are checked now, and records and vectors when they are first read.
        """
        kb = cls(path)
        for problem in faults(kb) if verify else ():
            raise problem
        return kb

    def __reduce__(self) -> tuple[type[KnowledgeBase], tuple[str]]:
        return KnowledgeBase, (str(self.path),)

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files. A later look-up opens them again; PelError if they are gone by then."""
        self._store.close()
        self._release()

    def refresh(self) -> bool:
        """Opens the folder as it is now; whether the KB had changed, and so perhaps its numbers.

        After an error, which is as of ``open``, the KB stays as it was.
        """
        if checked_settings(self.path) == self.settings:
            return False
        seen = _seen(self.path)
        self.close()
        self._see(*seen)
        return True

    def _see(self, store: Store, settings: Settings, descriptors: list[int]) -> None:
        for name in ("vectors", "mentions", "_removed", "semantic_types", "_definitions"):
            self.__dict__.pop(name, None)  # what was read of the KB before
        self.settings = settings
        self._store = store
        self._count: int = settings["next_number"]
        self._masks: dict[SearchFilter, np.ndarray] = {}
        # It does not unlock (LOCK_UN), which would take the lock from forked children as well.
        self._release = weakref.finalize(self, _close, descriptors)

    # Records

    def __len__(self) -> int:
        return self.settings["counts"]["entities"]

    def __contains__(self, id: str) -> bool:
        return self.number(id) is not None

    def __getitem__(self, id: str) -> Entity:
        """The entity with this concept, alternative or retired id; KeyError if there is none."""
        number = self.number(id)
        if number is None:
            raise KeyError(id)
        return self.entities([number])[0]

    def __iter__(self) -> Iterator[Entity]:
        """The entities in order of number."""
        removed = set(self._removed.tolist())
        for number, entity in self._store.all_entities(self._count):
            if number not in removed:
                yield entity

    def numbers(self) -> np.ndarray:
        """The numbers of the entities: int64 [len], ascending."""
        numbers = np.arange(self._count)
        return numbers[self._is_live(numbers)]

    def numbers_by_id(self) -> np.ndarray:
        """The numbers of the entities in order of concept id: int64 [len]."""
        if self.settings["in_order"] >= self._count:
            return self.numbers()
        return self._selected("SELECT number FROM entity ORDER BY concept_id")

    def by_id(self) -> Iterator[Entity]:
        """The entities in order of concept id."""
        numbers = self.numbers_by_id()
        for start in range(0, len(numbers), _BLOCK):
            yield from self._store.entities(numbers[start : start + _BLOCK])

    def number(self, id: str) -> int | None:
        """The number of the entity with this concept, alternative or retired id, or None.

        A concept id goes before another; of several entities, the first by concept id is meant.
        """
        try:
            for place in ("entity WHERE concept_id", "alternative WHERE id"):
                numbers = self._selected(f"SELECT number FROM {place} = ?", id).tolist()
                if len(numbers) > 1:
                    numbers.sort(key=lambda number: self.labels([number]))
                if numbers:
                    return numbers[0]
        except UnicodeEncodeError:  # a lone surrogate, which no id has
            pass
        return None

    def numbers_of(self, ids: Sequence[str]) -> np.ndarray:
        """The number of the entity with each of these concept ids: int64; -1 for no entity."""
        query = "SELECT key, number FROM json_each(?) JOIN entity ON concept_id = value"
        pairs = self._store.read(
            query, json.dumps(list(ids)), make=lambda *pair: tuple(map(stored_number, pair))
        )
        places, found = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        numbers = np.full(len(ids), -1, dtype=np.int64)
        there = self._is_live(found)
        numbers[places[there]] = found[there]
        return numbers

    def entities(self, numbers: Sequence[int] | np.ndarray) -> list[Entity]:
        """The entities with these numbers, in the same order; IndexError for no entity's number."""
        return self._store.entities(self._checked(numbers))

    def labels(self, numbers: Sequence[int] | np.ndarray) -> list[tuple[str, str]]:
        """The concept id and canonical name of each of these numbers; faster than ``entities``."""
        columns, checked = "concept_id, canonical_name", self._checked(numbers)
        return self._store.records(checked, columns, lambda *row: tuple(map(stored_text, row)))

    def named(self, name: str, exact: bool = False) -> list[Entity]:
        """The entities with this name, sorted by concept id.

        Unless ``exact``, case, blanks and punctuation do not count, and British spelling is tried too.
        """
        return sorted(self.entities(self.numbers_named(name, exact)))

    def numbers_named(self, name: str, exact: bool = False) -> np.ndarray:
        """The numbers of the entities that ``named`` returns: int64, ascending."""
        key = normalised(name)
        numbers = self._selected("SELECT number FROM name WHERE hash = ?", name_hash(key))
        has_it = [
            name in entity.names if exact else key in map(normalised, entity.names)
            for entity in self._store.entities(numbers)
        ]
        if not exact and not any(has_it) and (spelled := american(key)) != key:
            return self.numbers_named(spelled)
        if not exact and not any(has_it) and self.settings.get("in_any_order"):
            return self._names.owners_by_words(name).astype(np.int64)
        return numbers[np.array(has_it, dtype=bool)]

    @cached_property
    def _names(self) -> NameFinder:
        return self.name_finder()

    def name_finder(
        self, progress: Callable[[Iterable[Entity]], Iterable[Entity]] = iter, **choice: Any
    ) -> NameFinder:
        """What finds the names in texts. The first use makes its files, if the folder can be written to.

        ``progress`` wraps the entities that are read. ``choice`` are arguments of the class.
        """
        makers = {"": name_table}
        if self.settings.get("in_any_order"):
            makers["-words"] = word_table
        start = f"{NAMES_PREFIX}{self.settings['checksum'][:16]}"
        tables = [
            kept_table(
                self.path / f"{start}{kind}.npy", lambda: make(progress(self), self.numbers())
            )
            for kind, make in makers.items()
        ]
        return NameFinder(*tables, **choice)

    def definitions(self, acronym: str) -> Mapping[int, int]:
        """How many texts defined an acronym for an entity, by its number; see ``kb learn --acronyms``."""
        return self._definitions.get(normalised(acronym), {})

    @cached_property
    def _definitions(self) -> dict[str, dict[int, int]]:
        query = "SELECT value FROM setting WHERE name GLOB 'acronyms of *'"
        with self._store.reading():
            rows = [
                (normalised(stored_text(acronym)), stored_text(id), stored_number(count))
                for (text,) in self._store.read(query)
                for acronym, id, count in json.loads(text)
            ]
            if any(count < 1 for *_, count in rows):
                raise ValueError("an acronym that no text defines")
        counts: dict[str, dict[int, int]] = {}
        numbers = self.numbers_of([id for _, id, _ in rows]).tolist()
        for (acronym, _, count), number in zip(rows, numbers):
            if number >= 0:
                own = counts.setdefault(acronym, {})
                own[number] = own.get(number, 0) + count
        return counts

    def found(self, text: str, limit: int = 10) -> list[Entity]:
        """The entities whose names contain all words of the text, the most similar name first.

        Of more than 10,000 only the first are compared, and those with the text as a name.
        """
        numbers = self.numbers_named(text)
        if matched := " ".join(f'"{word}"' for word in words(text)):
            query = "SELECT rowid FROM word WHERE word MATCH ? ORDER BY rowid LIMIT ?"
            numbers = np.union1d(numbers, self._selected(query, matched, _COMPARED))
        ranked = [
            (-max(likeness(text, name) for name in entity.names), entity)
            for entity in self._store.entities(numbers)
        ]
        return [entity for _, entity in sorted(ranked)[:limit]]

    def near(self, names: Sequence[str], k: int) -> np.ndarray:
        """For each name the k entities that share its rarest words: int64 [n, k]; -1 for no entity.

        Of a word the beginning counts, so that "diabetic" and "diabetes" are one. A word that more than
        10,000 entities have counts only in a name that has no other.
        """

        @cache
        def holding(query: str) -> np.ndarray:
            found = "SELECT rowid FROM word WHERE word MATCH ? ORDER BY rowid LIMIT ?"
            return self._selected(found, query, _COMPARED)

        near = np.full((len(names), k), -1)
        for row, name in zip(near, names):
            spelled = dict.fromkeys(words(american(normalised(name))))
            queries = [f'"{word[: max(4, len(word) - 3)]}"*' for word in spelled]
            lists = [own for own in map(holding, queries) if 0 < len(own) < _COMPARED]
            lists = lists or [holding(" ".join(queries)) if queries else row[:0]]
            numbers, places = np.unique(np.concatenate(lists), return_inverse=True)
            rarity = [log(1 + len(self) / (1 + len(own))) for own in lists]
            scores = np.bincount(places, np.repeat(rarity, list(map(len, lists))))
            best = numbers[np.argsort(-scores, kind="stable")[:k]]
            row[: len(best)] = best
        return near

    def of_types(self, *names_or_codes: str) -> np.ndarray:
        """The numbers of the entities of these types and types below: int64, ascending.

        "" stands for entities without a type. PelError if the KB does not have one of the types.
        """
        names = with_descendants(filter(None, names_or_codes), self.semantic_types)
        numbers = self._posted(_OF_TYPE, names)
        if "" not in names_or_codes:
            return numbers
        typed = self._posted(_OF_TYPE, [type.name for type in self.semantic_types])
        return np.union1d(numbers, np.setdiff1d(self.numbers(), typed, assume_unique=True))

    def of_sources(self, *names: str) -> np.ndarray:
        """The numbers of the entities of these sources: int64, ascending; PelError if there are none."""
        known = self._store.read("SELECT DISTINCT source FROM sourced", make=stored_text)
        for name in set(names) - set(known):
            some = ", ".join(sorted(known)[:20]) or "none"
            problem = f"{self.path}: no entity comes from {name!r}"
            raise PelError(problem, f"choose one of its sources: {some}")
        return self._posted(_OF_SOURCE, names)

    def matching(self, only: SearchFilter) -> np.ndarray:
        """The numbers of the entities that a filter allows: int64, ascending; errors as of ``search``."""
        parts = [self.numbers()]
        if only.types:
            parts.append(self.of_types(*only.types))
        if only.sources:
            parts.append(self.of_sources(*only.sources))
        if only.ids:
            parts.append([number for number in map(self.number, only.ids) if number is not None])
        return reduce(np.intersect1d, parts).astype(np.int64)

    def file_sizes(self) -> dict[str, int]:
        """The size of each file of the KB, in bytes, by name."""
        sizes = {file["name"]: file["bytes"] for file in vector_files(self.settings)}
        return {KB_FILE: (self.path / KB_FILE).stat().st_size, **sizes}

    def has_codes(self, vocabulary: str) -> bool:
        """Whether an entity has an identifier in this vocabulary; see ``Entity.codes``."""
        query = (
            "SELECT number FROM entity WHERE instr(lower(xrefs), lower(?1)) OR instr(lower(alt_ids), lower(?1)) "
            "OR instr(lower('\"' || concept_id), lower(?1)) = 1 LIMIT 1"
        )
        return bool(self._store.read(query, f'"{vocabulary}:'))

    @cached_property
    def semantic_types(self) -> list[SemanticType]:
        """The types that the sources defined, also if no entity has them, then those of entities."""
        types = self._store.read(
            "SELECT name, code, tree_number FROM semantic_type ORDER BY rowid",
            make=lambda name, *row: SemanticType(
                stored_text(name), *(x and stored_text(x) for x in row)
            ),
        )
        query = "SELECT DISTINCT type FROM typed ORDER BY type"
        named = self._store.read(query, make=lambda name: SemanticType(stored_text(name)))
        return known_types([*types, *named])

    @property
    def semantic_type_tree(self) -> SemanticTypeTree:
        """The types as a tree, as in scispaCy."""
        return SemanticTypeTree(self.semantic_types)

    @property
    def cui_to_entity(self) -> Mapping[str, CuiEntity]:
        """From ids to entities, as in scispaCy, read from the KB when asked for."""
        return EntitiesById(self)

    @property
    def alias_to_cuis(self) -> Mapping[str, set[str]]:
        """From exact names to sets of ids, as in scispaCy, read when asked for."""
        return IdsByName(self)

    # Vectors

    @property
    def has_vectors(self) -> bool:
        """Whether the KB was embedded."""
        return self.settings["vectors"] is not None

    @property
    def dim(self) -> int:
        """The length of the vectors, and so of queries; PelError if the KB has no vectors."""
        return self.vectors.settings["dim"]

    @property
    def stored_dim(self) -> int:
        """The length of the vectors as stored: ``dim``, or less after ``pel kb embed --dim``."""
        return self.vectors.settings["stored_dim"]

    @property
    def row_kind(self) -> str:
        """What one row stands for, for example "entity" or "name" (see ``reading.entity_texts``)."""
        return self.vectors.settings["row_kind"]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the encoder that made the vectors."""
        return self.vectors.settings["fingerprint"]

    def check_fingerprint(self, fingerprint: str) -> None:
        """Raises PelError unless this encoder made the vectors."""
        if self.fingerprint != fingerprint:
            both = f"{self.fingerprint}, not {fingerprint}"
            problem = f"{self.path}: its vectors were made by another encoder ({both})"
            raise PelError(problem, f"run: python -m spacy pel kb embed {self.path} PIPELINE")

    @cached_property
    def vectors(self) -> StoredVectors:
        """The vectors as they are stored; PelError if the KB has none."""
        if not self.has_vectors:
            remedy = f"run: python -m spacy pel kb embed {self.path} PIPELINE"
            raise PelError(f"{self.path} has no vectors", remedy)
        return StoredVectors(self.path, self.settings, self._store)

    @cached_property
    def mentions(self) -> KnownMentions:
        """The mentions that the KB has learnt (``pel kb learn --mentions``)."""
        return KnownMentions(self._store, self.settings, self.numbers_of)

    def search(
        self,
        vectors: np.ndarray,
        k: int,
        only: SearchFilter | None = None,
        *,
        with_mentions: bool = True,
    ) -> Candidates:
        """The k best entities of each query, scored by the best of their rows, then by concept id.

        Args:
            vectors: The queries, float32 [n, dim].
            k: The number of candidates for each query.
            only: The entities that may be found; still k of them, if the KB has that many.
            with_mentions: Whether learnt mentions near a query add to the score (``mentions``).

        Raises:
            PelError: The KB has no vectors, the queries do not fit them, or the KB does not have a
                type or a source of the filter.
        """
        stored, allowed = self.vectors, self._allowed(only)
        if self.settings["mentions"] and with_mentions:
            return self.mentions.search(stored, vectors, k, allowed)
        return stored.search(vectors, k, allowed)

    def rows(self, numbers: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Vectors, float32 [n, dim], and of each the place of its entity in ``numbers``, int64 [n].

        They are in the order of ``numbers``. PelError if the KB has no vectors.
        """
        return self.vectors.rows(np.asarray(numbers, dtype=np.int64))

    # What was in the KB when it was opened

    @cached_property
    def _removed(self) -> np.ndarray:
        """The numbers that had been removed: int64, ascending."""
        query = "SELECT number FROM removed WHERE change <= ? ORDER BY number"
        return self._store.numbers(query, self.settings["change"])

    def _is_live(self, numbers: np.ndarray) -> np.ndarray:
        known, removed = (numbers >= 0) & (numbers < self._count), self._removed
        if len(removed):
            known &= removed.take(removed.searchsorted(numbers), mode="clip") != numbers
        return known

    def _selected(self, query: str, *parameters: object) -> np.ndarray:
        """The numbers of entities that a query selects: int64."""
        numbers = self._store.numbers(query, *parameters)
        return numbers[self._is_live(numbers)]

    def _posted(self, query: str, keys: Collection[str]) -> np.ndarray:
        postings = [np.empty(0, np.int64)]
        for key in set(keys):
            postings += self._store.read(query, key, make=lambda blob: np.frombuffer(blob, POSTING))
        numbers = np.unique(np.concatenate(postings))
        return numbers[self._is_live(numbers)]

    def _checked(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """Numbers as an array; IndexError if one of them belongs to no entity of the KB."""
        wanted = np.asarray(numbers, dtype=np.int64)
        live = self._is_live(wanted)
        if not live.all():
            raise IndexError(f"no entity has the number {wanted[~live][0]}")
        return wanted

    def _allowed(self, only: SearchFilter | None) -> np.ndarray | None:
        """Booleans [next number]: which entities may be found; None if all. The last ones are kept."""
        only = only or SearchFilter()
        if not any(only) and not len(self._removed):
            return None
        for field, values in only._asdict().items():
            if isinstance(values, str):
                raise PelError(f"{field} is the text {values!r}", f"give a list of {field}")
        only = SearchFilter(*(tuple(sorted(set(values))) for values in only))
        if only not in self._masks:
            if len(self._masks) == _KEPT:
                del self._masks[next(iter(self._masks))]
            mask = np.zeros(self._count, dtype=bool)
            mask[self.matching(only)] = True
            self._masks[only] = mask
        return self._masks[only]


def _seen(folder: Path) -> tuple[Store, Settings, list[int]]:
    """The database of a KB's folder, its settings, and its files of vectors, held open."""
    while True:
        store = Store(folder)
        settings = store.settings()
        descriptors: list[int] = []
        try:
            for file in vector_files(settings):
                descriptors.append(os.open(folder / file["name"], os.O_RDONLY | _NO_LINK))
                lock_for_reading(descriptors[-1])
                if not os.fstat(descriptors[-1]).st_nlink:  # swept before the lock was there
                    raise FileNotFoundError
            return store, settings, descriptors
        except OSError:
            _close(descriptors)
            store.close()
            if checked_settings(folder) == settings:
                raise


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def verify(path: str | Path, *, progress: Report | None = None) -> list[PelError]:
    """The problems of a KB folder, each with its remedy; an empty list if the KB is whole.

    Vectors and their index are compared with their checksums, and so is the database unless it was
    changed since it was built, embedded or assembled. Then SQLite checks the database, and each record
    is compared with its own checksum and with the tables of names. ``progress`` is called with the
    number of bytes read since the last call.
    """
    try:
        with KnowledgeBase.open(path) as kb:
            return [*foreign_files(kb.path), *faults(kb, progress)]
    except PelError as error:
        return [error]
