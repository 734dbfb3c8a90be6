"""Read a KB folder: its records, vectors, learnt mentions, and corrections, through one class."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, reduce, wraps
from itertools import compress, islice
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from ..errors import PelError, readable
from ..io.whole_files import sha256
from .corrections import Corrections, LiveCorrections
from .mentions import KnownMentions
from .name_finder import NameFinder, name_table
from .names_file import names_files, store_names, stored_names
from .records.entity import CURIE, Entity
from .records.names import american, name_hash, name_similarity, normalised, words
from .records.semantic_types import SemanticType, types_meant
from .scispacy_mappings import CuiEntity, EntitiesById, IdsByName
from .spelling import corrected, may_be_misspelled, other_spellings
from .store import KB_FILE, POSTING, Settings, Store, file_size, stored_text, vector_files
from .transaction import CHECKSUMS, NAMES_PREFIX, checked_settings
from .vectors.index import Candidates
from .vectors.stored import StoredVectors

COPY_OR_BUILD = "copy the folder again, or build the KB again"
_MAX_MASKS = 8  # of search filters in the cache; a mask takes one byte per entity
_BATCH_SIZE = 1024  # records read at a time: an open cursor would keep writers out
_MAX_MATCHES = 10_000  # entities that a full-text query returns
_CACHE_SIZE = 50_000  # words whose rarity is cached
OTHER_SENSE = -1  # the number of the senses of an acronym that are no entity
# How many values of a kind are remembered. Some hundred entities stand behind most mentions of a corpus.
_MAX_REMEMBERED = 10_000
_COUNT_EACH = (
    "SELECT (SELECT count(*) FROM (SELECT 1 FROM word WHERE word MATCH value LIMIT ?)) "
    "FROM json_each(?) ORDER BY key"
)
_MATCHES = "SELECT rowid FROM word WHERE word MATCH ? ORDER BY rowid LIMIT ?"
K = TypeVar("K")
P = ParamSpec("P")
T = TypeVar("T")
Report = Callable[[int], object]
Progress = Callable[[Iterable[Entity]], Iterable[Entity]]


class SearchFilter(NamedTuple):
    """The entities that a search may return: those that meet every given condition.

    Attributes:
        types: Names or codes of semantic types. An entity matches if it has one of them, or a type
            below one of them in the tree. "" stands for entities without a type.
        sources: Names of sources, as in ``Entity.sources``.
        ids: Concept ids, alternative ids or retired ids. Unknown ids are ignored.
    """

    types: Collection[str] = ()
    sources: Collection[str] = ()
    ids: Collection[str] = ()


def _at_once(
    method: Callable[Concatenate[KnowledgeBase, P], T],
) -> Callable[Concatenate[KnowledgeBase, P], T]:
    """Run a method on a snapshot, so that a concurrent ``refresh`` does not change what it sees."""

    @wraps(method)
    def on_snapshot(self: KnowledgeBase, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.snapshot(), *args, **kwargs)

    return on_snapshot


def _cached(method: Callable[[KnowledgeBase], T]) -> Callable[[KnowledgeBase], T]:
    """Run a method once for each state of the KB, and keep its value with the state."""

    @wraps(method)
    def cached(self: KnowledgeBase) -> T:
        snapshot = self.snapshot()
        values: dict[str, T] = snapshot._state.values
        if method.__name__ not in values:
            values[method.__name__] = method(snapshot)
        return values[method.__name__]

    return cached


@dataclass(frozen=True)
class _State:
    """A KB as it was when it was opened or refreshed, and the values computed from it."""

    path: Path
    settings: Settings
    store: Store
    corrections: LiveCorrections
    masks: dict[SearchFilter, np.ndarray] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)  # of ``_cached`` methods, by name
    # What ``remembered`` computed, by its kind and then by its key.
    remembered: dict[str, dict[Any, Any]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def count(self) -> int:
        """A number above those of all entities."""
        return int(self.settings["next_number"])


class KnowledgeBase:
    """A knowledge base: numbered entities and their vectors.

    Opening a KB does not load it. Its content does not change before ``refresh``, even if other processes
    write to the folder. They may delete data that were not read yet: vectors that were replaced twice,
    changed mentions, or a KB that was built again. Reading these raises PelError. You can use a KB after a
    fork, and pickle it: the copy opens the same folder.

    Several threads may read while another calls ``refresh`` or ``close``. Each call sees one state of the
    KB. Take a ``snapshot`` for calls that belong together, such as a search and the labels of its results.

    Numbers are never reused: new and changed entities get new ones. Store ids, and take numbers from
    ``numbers``.
    """

    def __init__(self, path: str | Path) -> None:
        self._state = _read_state(Path(path).absolute())

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = False) -> KnowledgeBase:
        """Open the KB of a folder; PelError if the folder has no KB or a damaged one.

        Settings and file sizes are checked now, records and vectors when they are first read. ``verify``
        checks every byte now, as ``pel kb verify`` does.
        """
        kb = cls(path)
        if verify and (faults := _faults(kb)):
            raise faults[0]
        return kb

    @property
    def path(self) -> Path:
        """The folder."""
        return self._state.path

    @property
    def settings(self) -> Settings:
        """The description of the KB: "counts", "sources", "vectors", ... A change alters "checksum"."""
        return self._state.settings

    def __reduce__(self) -> tuple[type[KnowledgeBase], tuple[str]]:
        return KnowledgeBase, (str(self.path),)

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files after running look-ups. A later look-up opens them again, if they still exist."""
        self._state.store.close()

    def refresh(self) -> bool:
        """Reopen the folder; return whether the KB had changed. An error leaves the KB as it was."""
        if checked_settings(self.path) == self.settings:
            return False
        self._state = _read_state(self.path)  # old files are closed with their last reader
        return True

    def snapshot(self) -> KnowledgeBase:
        """Return a KB that shares the data of this one and keeps them when this one is refreshed."""
        snapshot = object.__new__(KnowledgeBase)
        snapshot._state = self._state
        return snapshot

    # Records

    def __len__(self) -> int:
        return int(self.settings["counts"]["entities"])

    def __contains__(self, id: str) -> bool:
        return self.number(id) is not None

    @_at_once
    def __getitem__(self, id: str) -> Entity:
        """Return the entity with this concept, alternative or retired id; KeyError without one."""
        number = self.number(id)
        if number is None:
            raise KeyError(id)
        return self.entities([number])[0]

    @_at_once
    def __iter__(self) -> Iterator[Entity]:
        """Yield the entities by number."""
        return self._read(self.numbers())

    @_at_once
    def numbers(self) -> np.ndarray:
        """Return the numbers of the entities: int64 [len], ascending."""
        return self._live(np.arange(self._state.count))

    @_at_once
    def numbers_by_id(self) -> np.ndarray:
        """Return the numbers of the entities in order of concept id: int64 [len]."""
        if self.settings["in_order"] >= self._state.count:
            return self.numbers()
        return self._selected("SELECT number FROM entity ORDER BY concept_id")

    @_at_once
    def by_id(self) -> Iterator[Entity]:
        """Yield the entities by concept id."""
        return self._read(self.numbers_by_id())

    def _read(self, numbers: np.ndarray) -> Iterator[Entity]:
        for start in range(0, len(numbers), _BATCH_SIZE):
            yield from self._store.entities(numbers[start : start + _BATCH_SIZE])

    @_at_once
    def number(self, id: str) -> int | None:
        """Return the number of the entity with this concept, alternative or retired id, or None.

        Concept ids take precedence. If several entities match, the first by concept id is returned.
        """
        query = (
            "SELECT number FROM (SELECT number, 1 AS place FROM entity WHERE concept_id = ?1 UNION ALL "
            "SELECT number, 2 FROM alternative WHERE id = ?1) JOIN entity USING (number) "
            "ORDER BY place, concept_id"
        )
        try:
            numbers = self._selected(query, id).tolist()
        except UnicodeEncodeError:  # a lone surrogate, which no id has
            return None
        return numbers[0] if numbers else None

    @_at_once
    def numbers_of(self, ids: Sequence[str]) -> np.ndarray:
        """Return the number of the entity of each concept id: int64; -1 for no entity."""
        query = "SELECT key, number FROM json_each(?) JOIN entity ON concept_id = value"
        pairs = np.array(self._store.read(query, json.dumps(list(ids))), np.int64).reshape(-1, 2)
        places, live = pairs[self._is_live(pairs[:, 1])].T
        numbers = np.full(len(ids), -1, dtype=np.int64)
        numbers[places] = live
        return numbers

    @_at_once
    def entities(self, numbers: Sequence[int] | np.ndarray) -> list[Entity]:
        """Return the entities with these numbers, in order; IndexError for an unknown number."""
        wanted = self._checked(numbers).tolist()
        return self.remembered("entities", wanted, self._store.entities)

    def remembered(
        self,
        kind: str,
        keys: Sequence[K],
        compute: Callable[[list[K]], Sequence[T]],
        most: int = _MAX_REMEMBERED,
    ) -> list[T]:
        """Return the value of each key, cached until a refresh.

        Args:
            kind: The kind of the values, which have a cache of their own.
            keys: The keys, possibly repeated.
            compute: Returns the values of distinct keys. No value may be None.
            most: The size of the cache. A full cache is cleared.
        """
        known: dict[K, T] = self._state.remembered[kind]
        values = list(map(known.get, keys))
        missing = list(dict.fromkeys(key for key, value in zip(keys, values) if value is None))
        if missing:
            new = dict(zip(missing, compute(missing)))
            if len(known) + len(new) > most:
                known.clear()
            if len(new) <= most:
                known.update(new)
            return [new[key] if value is None else value for key, value in zip(keys, values)]
        return values  # type: ignore[return-value]

    @_at_once
    def labels(self, numbers: Sequence[int] | np.ndarray) -> list[tuple[str, str]]:
        """Return the concept id and canonical name of each number; faster than ``entities``."""
        wanted, known = self._checked(numbers).tolist(), self._state.remembered["entities"]
        entities = list(filter(None, map(known.get, wanted)))
        if len(entities) == len(wanted):  # as after a ranking
            return [(entity.concept_id, entity.canonical_name) for entity in entities]
        return self.remembered("labels", wanted, self._read_labels)

    def _read_labels(self, numbers: Sequence[int]) -> list[tuple[str, str]]:
        return self._store.records(
            numbers,
            "concept_id, canonical_name",
            lambda id, name: (stored_text(id), stored_text(name)),
        )

    @_at_once
    def named(self, name: str) -> list[Entity]:
        """Return the entities with this name, sorted by concept id.

        The comparison ignores case, blanks, punctuation, and British spelling. In a KB with word forms, it
        also ignores the forms of words; and if entities have this canonical name, only they are returned.
        """
        return sorted(self.entities(self.numbers_named(name)))

    @_at_once
    def numbers_named(self, name: str) -> np.ndarray:
        """Return the numbers of the entities of ``named``: int64, ascending."""
        return self.numbers_of_names([name])[0]

    @_at_once
    def numbers_of_names(self, names: Sequence[str]) -> list[np.ndarray]:
        """Return ``numbers_named`` of each name; faster than one call per name."""
        return self.remembered("named", names, self._owners)

    def _owners(self, names: Sequence[str]) -> list[np.ndarray]:
        spellings = [(key := normalised(name), american(key)) for name in names]
        hashes = sorted({name_hash(key) for keys in spellings for key in keys})
        query = "SELECT value, number FROM json_each(?) JOIN name ON hash = value ORDER BY 1, 2"
        pairs = self._store.numbers(query, json.dumps(hashes)).reshape(-1, 2)
        owners: dict[int, list[tuple[int, Entity]]] = defaultdict(list)
        if len(pairs):  # most words that are looked up are no name
            pairs = pairs[self._is_live(pairs[:, 1])]
            for hash, number, entity in zip(*pairs.T.tolist(), self.entities(pairs[:, 1])):
                owners[hash].append((number, entity))

        def of_name(name: str, keys: tuple[str, str]) -> np.ndarray:
            if self._word_forms and len(owners_by_forms := self._names.owners_by_forms(name)):
                return owners_by_forms.astype(np.int64)
            for key in keys:
                known = owners[name_hash(key)]
                if numbers := [n for n, entity in known if key in map(normalised, entity.names)]:
                    return np.array(numbers, dtype=np.int64)
            return np.empty(0, np.int64)

        return list(map(of_name, names, spellings))

    @property
    @_cached
    def _names(self) -> NameFinder:
        return self.name_finder()

    @_at_once
    def name_finder(self, /, progress: Progress = iter, **choice: Any) -> NameFinder:
        """Return a finder of names in texts. The first call stores its table, if the folder is writable.

        ``progress`` wraps the entities that are read. ``choice`` are arguments of ``NameFinder``.
        """
        table = self.stored_names()
        if table is None:
            table = self.name_table(progress)
            with suppress(OSError):
                store_names(self.path, self.names_stem, table)
        return NameFinder(table, **choice)

    @property
    def names_stem(self) -> str:
        """The stem of the file of the table of names."""
        version = "forms-4" if self._word_forms else "3"
        return f"{NAMES_PREFIX}{self.settings['checksum'][:16]}-{version}"

    @property
    def _word_forms(self) -> bool:
        return bool(self.settings.get("word_forms"))

    def stored_names(self) -> np.ndarray | None:
        """Return the table of names in the folder; None if it is missing or damaged."""
        return stored_names(self.path, self.names_stem, self._state.count, self._word_forms)

    def name_table(self, progress: Progress = iter) -> np.ndarray:
        """Return the table of names, computed from the entities; see ``name_finder``."""
        return name_table(progress(self), self.numbers(), self._word_forms)

    @_at_once
    def definitions(self, acronym: str) -> Mapping[int, int]:
        """Return the number of texts that define an acronym, by entity number (``kb learn --acronyms``).

        ``OTHER_SENSE`` stands for the senses that are no entity.
        """
        return self._definitions.get(normalised(acronym), {})

    @property
    @_cached
    def acronyms(self) -> Collection[str]:
        """The normalised acronyms that have ``definitions`` as an entity."""
        return {name for name, counts in self._definitions.items() if max(counts) > OTHER_SENSE}

    @property
    @_cached
    def _definitions(self) -> dict[str, Counter[int]]:
        query = (
            "SELECT json_extract(row.value, '$[0]'), ifnull(number, ?), json_extract(row.value, '$[2]') "
            "FROM setting, json_each(setting.value) AS row "
            "LEFT JOIN entity ON concept_id = json_extract(row.value, '$[1]') "
            "WHERE name GLOB 'acronyms of *' AND json_extract(row.value, '$[2]') > 0 "
            "AND (number IS NOT NULL OR json_extract(row.value, '$[1]') = '')"
        )
        rows = self._store.read(
            query,
            OTHER_SENSE,
            make=lambda name, n, count: (normalised(stored_text(name)), n, int(count)),
        )
        counts: dict[str, Counter[int]] = defaultdict(Counter)
        numbers = np.array([number for _, number, _ in rows], dtype=np.int64)
        for acronym, number, count in compress(
            rows, self._is_live(numbers) | (numbers == OTHER_SENSE)
        ):
            counts[acronym][number] += count
        return counts

    @_at_once
    def search_names(self, text: str, limit: int = 10) -> list[Entity]:
        """Return the entity with this id, or entities whose names have all words, most similar first.

        The comparison reads the first 10,000 entities with these words, and those with exactly this name.
        """
        if text in self:
            return [self[text]]
        numbers = self.numbers_named(text)
        if matched := " ".join(f'"{word}"' for word in words(text)):
            numbers = np.union1d(numbers, self._selected(_MATCHES, matched, _MAX_MATCHES))

        def rank(entity: Entity) -> tuple[float, Entity]:
            return -max(name_similarity(text, name) for name in entity.names), entity

        return sorted(self._store.entities(numbers), key=rank)[:limit]

    @_at_once
    def fuzzy_candidates(self, names: Sequence[str], k: int) -> np.ndarray:
        """Return the k entities that share the rarest words of each name: int64 [n, k]; -1 for none.

        Words match by their first letters, such as "diabetic" and "diabetes". The search ignores a word of
        10,000 entities or more, unless the name has no other word.
        """

        @cache
        def matches(query: str) -> np.ndarray:
            return self._selected(_MATCHES, query, _MAX_MATCHES)

        candidates = np.full((len(names), k), -1)
        for row, name in zip(candidates, names):
            distinct = dict.fromkeys(words(american(normalised(name))))
            queries = [f'"{word[: max(4, len(word) - 3)]}"*' for word in distinct]
            postings = [p for p in map(matches, queries) if 0 < len(p) < _MAX_MATCHES]
            postings = postings or [matches(" ".join(queries)) if queries else row[:0]]
            numbers, places = np.unique(np.concatenate(postings), return_inverse=True)
            rarity = [log(1 + len(self) / (1 + len(p))) for p in postings]
            scores = np.bincount(places, np.repeat(rarity, list(map(len, postings))))
            best = numbers[np.argsort(-scores, kind="stable")[:k]]
            row[: len(best)] = best
        return candidates

    @_at_once
    def respelled(self, names: Sequence[str]) -> list[str]:
        """Return names with their misspelled words corrected; "" for a name without a correction.

        The corrected name is a name of the KB: another spelling (``spelling.other_spellings``), or one with
        other words. A word is misspelled if no name of the KB has it. It is corrected by a word with the same
        first letter (``spelling.corrected``): of several, by that of most entities.
        """
        return self.remembered("respelled", names, self._respelled)

    def _respelled(self, names: Sequence[str]) -> list[str]:
        unowned = [name for name, own in zip(names, self.numbers_of_names(names)) if not len(own)]
        others = [(name, other) for name in unowned for other in other_spellings(name)]
        others += zip(unowned, self._with_known_words(unowned))
        owners = self.numbers_of_names([other for _, other in others])
        found: dict[str, str] = {}
        for (name, other), own in zip(others, owners):
            if len(own):
                found.setdefault(name, other)
        return [found.get(name, "") for name in names]

    def _with_known_words(self, names: Sequence[str]) -> list[str]:
        """Return names with corrected words, normalised; "" if no word is misspelled, or one is unclear."""
        by_name = [american(normalised(name)).split() for name in names]
        long = {word for of_name in by_name for word in of_name if may_be_misspelled(word)}
        query = "SELECT value FROM json_each(?) JOIN vocabulary ON term = value"
        unknown = sorted(long.difference(*self._store.read(query, json.dumps(sorted(long)))))
        known = self.remembered("words", [word[0] for word in unknown], self._words_from)
        right = {word: corrected(word, near.split()) for word, near in zip(unknown, known)}
        return [
            " ".join(right.get(word, word) for word in of_name)
            if not right.keys().isdisjoint(of_name) and all(right.get(w, w) for w in of_name)
            else ""
            for of_name in by_name
        ]

    def _words_from(self, letters: Sequence[str]) -> list[str]:
        """Return the words of names with each first letter, those of most entities first, as one text."""
        query = "SELECT term FROM vocabulary WHERE term >= ? AND term < ? ORDER BY doc DESC, term"
        of_letters = ((letter, chr(ord(letter) + 1)) for letter in letters)
        return [
            " ".join(word for (word,) in self._store.read(query, *bounds) if word.isalpha())
            for bounds in of_letters
        ]

    @_at_once
    def rarities(self, stems: Sequence[str]) -> list[float]:
        """Return the rarity of each stem in names: a logarithm; 0 if all entities have the stem."""
        return self.remembered("rarities", stems, self._read_rarities, _CACHE_SIZE)

    def _read_rarities(self, stems: Sequence[str]) -> list[float]:
        queries = [
            " ".join(f'"{w}"' if len(w) < 4 else f'"{w.removesuffix("i")}"*' for w in words(stem))
            for stem in stems
        ]
        # A phrase without words is in no entity, but a query without phrases is an error.
        phrases = json.dumps([query or '""' for query in queries])
        n_owners = self._store.numbers(_COUNT_EACH, _MAX_MATCHES, phrases).tolist()
        return [log((1 + len(self)) / (1 + n)) for n in n_owners]

    @_at_once
    def of_types(self, *names_or_codes: str) -> np.ndarray:
        """Return the numbers of the entities of these types and types below: int64, ascending.

        "" stands for entities without a type. PelError for an unknown type.
        """
        names: set[str] = set()
        for wanted in filter(None, names_or_codes):
            meant = {type.name for type in types_meant(wanted, self.semantic_types)}
            if not meant:
                known = sorted({type.name for type in self.semantic_types})
                some = ", ".join(map(repr, known[:20])) or "none"
                remedy = f"choose one that python -m spacy pel kb info lists: {some}"
                raise PelError(f"no semantic type {wanted!r} in this KB", remedy)
            names |= meant
        numbers = self._posted("typed", "type", names)
        if "" in names_or_codes:
            typed = self._posted("typed", "type", {type.name for type in self.semantic_types})
            numbers = np.union1d(numbers, np.setdiff1d(self.numbers(), typed))
        return numbers

    @_at_once
    def of_sources(self, *names: str) -> np.ndarray:
        """Return the entities of these sources: int64, ascending; PelError for an unknown source."""
        known = self._store.read("SELECT DISTINCT source FROM sourced", make=stored_text)
        for name in set(names) - set(known):
            some = ", ".join(sorted(known)[:20]) or "none"
            problem = f"{self.path}: no entity comes from {name!r}"
            raise PelError(problem, f"choose one of its sources: {some}")
        return self._posted("sourced", "source", names)

    @_at_once
    def matching(self, only: SearchFilter) -> np.ndarray:
        """Return the entities that a filter allows: int64, ascending; errors as of ``search``."""
        parts = [self.numbers()]
        if only.types:
            parts.append(self.of_types(*only.types))
        if only.sources:
            parts.append(self.of_sources(*only.sources))
        if only.ids:
            numbers = map(self.number, only.ids)
            parts.append(np.array([n for n in numbers if n is not None], dtype=np.int64))
        return reduce(np.intersect1d, parts)

    @_at_once
    def prefixes(self) -> dict[str, int]:
        """Return the prefixes of the ids and the number of entities of each, most first."""
        query = (
            "SELECT substr(concept_id, 1, instr(concept_id, ':') - 1), count(*) FROM entity "
            "WHERE instr(concept_id, ':') AND NOT instr(concept_id, '/') AND number < ? "
            "AND number NOT IN (SELECT number FROM removed WHERE change <= ?) "
            "GROUP BY 1 ORDER BY 2 DESC, 1"
        )
        return dict(self._store.read(query, self._state.count, self.settings["change"]))

    @_at_once
    def n_bytes(self) -> int:
        """Return the size of the files of the KB."""
        sizes: list[int] = [file["bytes"] for file in vector_files(self.settings)]
        return (self.path / KB_FILE).stat().st_size + sum(sizes)

    @_at_once
    def check_vocabularies(self, vocabularies: Iterable[str]) -> None:
        """Raise PelError unless entities have codes in each vocabulary (``Entity.codes``).

        In the worst case all records are read: seconds for millions.
        """
        query = (
            "SELECT number FROM entity WHERE instr(lower(xrefs), lower(?1)) "
            "OR instr(lower(alt_ids), lower(?1)) "
            "OR instr(lower('\"' || concept_id), lower(?1)) = 1 LIMIT 1"
        )
        for name in vocabularies:
            if name != CURIE and not self._store.read(query, f'"{name}:'):
                sample = islice(self, _MAX_MATCHES)
                ids = (id for e in sample for id in (e.concept_id, *e.alt_ids, *e.xrefs))
                known = ", ".join(sorted({id.partition(":")[0] for id in ids if ":" in id}))
                problem = f"{self.path}: no entity has a code of {name!r}"
                raise PelError(problem, f"choose one of its vocabularies: {known or 'none'}")

    @property
    @_cached
    def semantic_types(self) -> list[SemanticType]:
        """The types that the sources define, then other types of entities.

        A type that has only a name is omitted if another of this name has a code or a tree number.
        """
        query = """
        WITH every AS (
            SELECT name, code, tree_number, rowid AS place FROM semantic_type
            UNION ALL SELECT DISTINCT type, NULL, NULL, 9e9 FROM typed
        ), described AS (SELECT * FROM every WHERE coalesce(code, tree_number) NOTNULL)
        SELECT name, code, tree_number FROM every
        WHERE coalesce(code, tree_number) NOTNULL OR name NOT IN (SELECT name FROM described)
        GROUP BY name, code, tree_number ORDER BY min(place), name
        """
        return self._store.read(
            query, make=lambda *row: SemanticType(*(text and stored_text(text) for text in row))
        )

    @property
    def semantic_type_tree(self) -> SimpleNamespace:
        """The tree of scispaCy: ``get_canonical_name`` returns a type's name by its code, or KeyError."""
        names = {type.code or type.name: type.name for type in self.semantic_types}
        return SimpleNamespace(get_canonical_name=names.__getitem__)

    @property
    def cui_to_entity(self) -> Mapping[str, CuiEntity]:
        """The mapping of scispaCy from ids to entities, read on demand."""
        return EntitiesById(self)

    @property
    def alias_to_cuis(self) -> Mapping[str, set[str]]:
        """The mapping of scispaCy from exact names to sets of ids, read on demand."""
        return IdsByName(self)

    # Vectors

    @property
    def has_vectors(self) -> bool:
        """Whether the KB has vectors."""
        return self.settings["vectors"] is not None

    @property
    def dim(self) -> int:
        """The length of the vectors and of queries; PelError if the KB has no vectors."""
        return int(self.vectors.settings["dim"])

    @property
    def stored_dim(self) -> int:
        """The length of the vectors as stored: ``dim``, or less after ``pel kb embed --dim``."""
        return int(self.vectors.settings["stored_dim"])

    @property
    def index_unit(self) -> str:
        """What a row represents, such as "entity" or "name" (see ``text.entity_texts``)."""
        return str(self.vectors.settings["index_unit"])

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the encoder that made the vectors."""
        return str(self.vectors.settings["fingerprint"])

    @_at_once
    def check_fingerprint(self, fingerprint: str) -> None:
        """Raise PelError unless this encoder made the vectors."""
        if self.fingerprint != fingerprint:
            both = f"{self.fingerprint}, not {fingerprint}"
            problem = f"{self.path}: its vectors were made by another encoder ({both})"
            raise PelError(problem, f"run: python -m spacy pel kb embed {self.path} PIPELINE")

    @property
    @_cached
    def vectors(self) -> StoredVectors:
        """The stored vectors; PelError if the KB has none."""
        if not self.has_vectors:
            remedy = f"run: python -m spacy pel kb embed {self.path} PIPELINE"
            raise PelError(f"{self.path} has no vectors", remedy)
        return StoredVectors(self.path, self.settings, self._store)

    @property
    @_cached
    def mentions(self) -> KnownMentions:
        """The mentions that the KB has learnt (``pel kb learn --mentions``)."""
        return KnownMentions(self._store, self.settings, self._is_live)

    @property
    def corrections(self) -> Corrections:
        """The current corrections (``pel fix``), also those made after the KB was opened."""
        return self._state.corrections.now()

    @_at_once
    def search(
        self,
        vectors: np.ndarray,
        k: int,
        only: SearchFilter | None = None,
        *,
        with_mentions: bool = True,
    ) -> Candidates:
        """Return the k best entities of each query, by score, then by concept id.

        The score of an entity is that of its best row.

        Args:
            vectors: float32 [n, dim], the queries.
            k: The number of entities.
            only: The entities that may be returned; None: all.
            with_mentions: Add the scores of learnt mentions near the query (``mentions``).

        Raises:
            PelError: The KB has no vectors, the queries do not fit them, or a type or source is unknown.
        """
        stored, allowed = self.vectors, self.allowed(only)
        if self.settings["mentions"] and with_mentions:
            return self.mentions.search(stored, vectors, k, allowed)
        return stored.search(vectors, k, allowed)

    @_at_once
    def allowed(self, only: SearchFilter | None) -> np.ndarray | None:
        """Return a mask of the entities that may be found, bool [next number]; None for all."""
        only = only or SearchFilter()
        if not any(only) and not len(self._removed):
            return None
        for name, values in only._asdict().items():
            if isinstance(values, str):
                raise PelError(f"{name} is the text {values!r}", f"give a list of {name}")
        only = SearchFilter(*(tuple(sorted(set(values))) for values in only))
        masks = self._state.masks
        mask = masks.get(only)
        if mask is None:
            mask = np.zeros(self._state.count, dtype=bool)
            mask[self.matching(only)] = True
            for oldest in list(masks)[: 1 - _MAX_MASKS]:
                masks.pop(oldest, None)
            masks[only] = mask
        return mask

    @_at_once
    def rows(self, numbers: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors of entities, in the order of ``numbers``.

        Returns:
            The vectors, float32 [n, dim], and the index of each vector's entity in ``numbers``, int64 [n].

        Raises:
            PelError: The KB has no vectors.
        """
        return self.vectors.rows(np.asarray(numbers, dtype=np.int64))

    # Internals

    @property
    def _store(self) -> Store:
        return self._state.store

    @property
    @_cached
    def _removed(self) -> np.ndarray:
        """The numbers of removed entities: int64, ascending."""
        query = "SELECT number FROM removed WHERE change <= ? ORDER BY number"
        return self._store.numbers(query, self.settings["change"])

    @property
    @_cached
    def _is_live(self) -> Callable[[np.ndarray], np.ndarray]:
        """A function from numbers to whether they are those of entities: bool [n]."""
        count, removed = self._state.count, self._removed

        def is_live(numbers: np.ndarray) -> np.ndarray:
            live: np.ndarray = (numbers >= 0) & (numbers < count)
            if len(removed):
                live &= removed.take(removed.searchsorted(numbers), mode="clip") != numbers
            return live

        return is_live

    def _live(self, numbers: np.ndarray) -> np.ndarray:
        live: np.ndarray = numbers[self._is_live(numbers)]
        return live

    def _selected(self, query: str, *parameters: object) -> np.ndarray:
        """Return the numbers of the entities that a query selects: int64."""
        return self._live(self._store.numbers(query, *parameters))

    def _posted(self, table: str, column: str, keys: Collection[str]) -> np.ndarray:
        query = f"SELECT numbers FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))"
        postings = self._store.read(
            query, json.dumps(sorted(keys)), make=lambda blob: np.frombuffer(blob, POSTING)
        )
        return self._live(np.unique(np.concatenate([np.empty(0, np.int64), *postings])))

    def _checked(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return numbers as an array; IndexError if one belongs to no entity."""
        wanted = np.asarray(numbers, dtype=np.int64)
        live = self._is_live(wanted)
        if not live.all():
            raise IndexError(f"no entity has the number {wanted[~live][0]}")
        return wanted


def _read_state(folder: Path) -> _State:
    """Open the database of a KB folder, and hold its vector files open."""
    while True:
        store = Store(folder)
        settings = store.settings()
        try:
            with readable(folder):
                store.hold(vector_files(settings))
            return _State(folder, settings, store, LiveCorrections(store))
        except PelError:
            store.close()
            if checked_settings(folder) == settings:  # otherwise a writer has replaced the files
                raise


def verify(path: str | Path, *, progress: Report | None = None) -> list[PelError]:
    """Return the errors of a KB folder, each with its remedy; an empty list if the KB is undamaged.

    Files are compared with their checksums; the database only if it has not changed since it was built,
    embedded or assembled. Then SQLite checks the database, records are compared with their checksums, and
    the table of names is computed again. ``progress`` receives the number of bytes read since its last call.
    """
    try:
        with KnowledgeBase.open(path) as kb:
            return _faults(kb, progress)
    except PelError as error:
        return [error]


def _faults(kb: KnowledgeBase, progress: Report | None = None) -> list[PelError]:
    """Return errors within files or, if there are none, inconsistencies between them.

    PelError for damage that stops the search.
    """
    path = kb.path / KB_FILE
    noted = {file["name"]: (file["bytes"], file["sha256"]) for file in vector_files(kb.settings)}
    listed = kb.path / CHECKSUMS
    with readable(kb.path):
        if file_size(listed) is not None:
            try:
                of_database = json.loads(listed.read_bytes())[KB_FILE]
                noted[KB_FILE] = of_database["bytes"], of_database["sha256"]
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                raise PelError(f"{listed}: cannot be read", "delete it") from error
        paths = {kb.path / name: both for name, both in noted.items()}
        changed = [p for p in paths if (p.stat().st_size, sha256(p, progress)) != paths[p]]
    if changed:
        problem = "does not match its checksum"
        return [PelError(f"{path}: {problem}", COPY_OR_BUILD) for path in changed]
    [(fault,)] = kb._store.read("PRAGMA integrity_check(1)")
    if fault == "ok" and len(kb) != sum(1 for _ in kb):  # reads each record and its checksum
        fault = f"counts {len(kb)} entities where there are {len(kb.numbers())}"
    if fault != "ok":
        return [PelError(f"{path}: {fault}", COPY_OR_BUILD)]
    if kb.has_vectors:
        _ = kb.vectors.parts, kb.mentions.index  # PelError if they are damaged
    kb.mentions.passages()
    if names_files(kb.path, kb.names_stem):
        stored = kb.stored_names()
        if stored is None or stored.tobytes() != kb.name_table().tobytes():
            names = f"{kb.path / kb.names_stem}*"
            return [PelError(f"{names}: is not of the names of this KB", "delete it")]
    return []
