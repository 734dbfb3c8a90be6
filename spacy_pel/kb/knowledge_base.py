"""The one way into a KB folder: its records, its vectors and its mentions behind one class."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache, partial, reduce, wraps
from itertools import compress, islice
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from ..errors import PelError, readable
from ..io.whole_files import sha256
from .corrections import Corrections, LiveCorrections
from .faults import COPY_OR_BUILD, copied, fault_of_tables
from .mentions import KnownMentions
from .name_finder import NameFinder, name_table
from .names_by_words import stems_of
from .names_file import names_files, store_names, stored_names
from .records.entity import Entity
from .records.names import american, name_hash, name_similarity, normalised, words
from .records.semantic_types import SemanticType, types_meant
from .row_sum import noted_sum, row_sum
from .scispacy_mappings import CuiEntity, EntitiesById, IdsByName
from .store import KB_FILE, POSTING, Settings, Store, plain_file_size, stored_text, vector_files
from .transaction import CHECKSUMS, NAMES_PREFIX, checked_settings
from .vectors.index import Candidates
from .vectors.stored import StoredVectors

_KEPT = 8  # filters whose masks are kept; a mask takes one byte an entity
_BLOCK = 1024  # records read at a time: an open cursor would keep writers out
_COMPARED = 10_000  # the most entities that a full-text look-up compares with its text
_REMEMBERED = 50_000  # words whose rarity is kept
_COUNTED = "SELECT count(*) FROM (SELECT 1 FROM word WHERE word MATCH ? LIMIT ?)"
_HOLDING = "SELECT rowid FROM word WHERE word MATCH ? ORDER BY rowid LIMIT ?"
P, T = ParamSpec("P"), TypeVar("T")
Report = Callable[[int], object]


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


def _at_once(
    method: Callable[Concatenate[KnowledgeBase, P], T],
) -> Callable[Concatenate[KnowledgeBase, P], T]:
    """A method that sees one state of the KB, whatever ``refresh`` does meanwhile."""

    @wraps(method)
    def seen(self: KnowledgeBase, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.snapshot(), *args, **kwargs)

    return seen


class _once(cached_property[T]):
    """A property that is made of one state of the KB, when it is first asked for, and kept."""

    def __get__(self, kb: KnowledgeBase | None, owner: type | None = None) -> Any:
        return super().__get__(None if kb is None else kb.snapshot(), owner)


class KnowledgeBase:
    """A knowledge base: entities, each with a number, and the vectors that stand for them.

    A KB is opened, not loaded. Whatever is written to the folder, the KB stays as it was when it was
    opened, until ``refresh``. What it reads for the first time may be gone by then: vectors that were
    replaced twice, mentions that were changed, everything of a KB that was built anew. That is a PelError
    which says so. It may be used after a fork, and pickled: a copy opens the same folder.

    Several threads may read, also while another one calls ``refresh`` or ``close``. Each call sees one state
    of the KB. For several calls that belong together, such as a search and the labels of what it found, take
    a ``snapshot``.

    ``path`` is the folder, and ``settings`` what the KB says of itself: "counts", "sources", "vectors",
    and so on. "checksum" is another one after each change. New and changed entities get new numbers,
    and no number is used again. So take the numbers in use from ``numbers``, and store ids.
    """

    path: Path
    settings: Settings
    _store: Store
    _count: int
    _masks: dict[SearchFilter, np.ndarray]

    def __init__(self, path: str | Path) -> None:
        self._see(Path(path).absolute())

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = False) -> KnowledgeBase:
        """The KB of a folder; PelError if there is none in it, or it is not whole.

        With ``verify`` every byte is checked first, as ``pel kb verify`` does. Otherwise settings and
        sizes of files are checked now, and records and vectors when they are first read.
        """
        kb = cls(path)
        if verify and (found := _faults(kb)):
            raise found[0]
        return kb

    def __reduce__(self) -> tuple[type[KnowledgeBase], tuple[str]]:
        return KnowledgeBase, (str(self.path),)

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files, after look-ups that are under way.

        A later look-up opens them again; PelError if they are gone by then.
        """
        self._store.close()

    def refresh(self) -> bool:
        """Opens the folder as it is now; whether the KB had changed, and so perhaps its numbers.

        After an error, which is as of ``open``, the KB stays as it was.
        """
        if checked_settings(self.path) == self.settings:
            return False
        self._see(self.path)
        return True

    def snapshot(self) -> KnowledgeBase:
        """This KB as it is now: it shares all that was read, and a ``refresh`` of this one leaves it alone."""
        same = object.__new__(KnowledgeBase)
        same.__dict__ = self.__dict__  # ``refresh`` gives this one another
        return same

    def _see(self, path: Path) -> None:
        store, settings = _seen(path)
        # In one step, without what was read of the KB before. Files are closed with the last reader.
        self.__dict__ = {
            "path": path,
            "settings": settings,
            "_store": store,
            "_count": settings["next_number"],
            "_masks": {},
            "_corrections": LiveCorrections(store),
        }

    # Records

    def __len__(self) -> int:
        return self.settings["counts"]["entities"]

    def __contains__(self, id: str) -> bool:
        return self.number(id) is not None

    @_at_once
    def __getitem__(self, id: str) -> Entity:
        """The entity with this concept, alternative or retired id; KeyError if there is none."""
        number = self.number(id)
        if number is None:
            raise KeyError(id)
        return self.entities([number])[0]

    @_at_once
    def __iter__(self) -> Iterator[Entity]:
        """The entities in order of number."""
        return self._read(self.numbers())

    @_at_once
    def numbers(self) -> np.ndarray:
        """The numbers of the entities: int64 [len], ascending."""
        numbers = np.arange(self._count)
        return numbers[self._is_live(numbers)]

    @_at_once
    def numbers_by_id(self) -> np.ndarray:
        """The numbers of the entities in order of concept id: int64 [len]."""
        if self.settings["in_order"] >= self._count:
            return self.numbers()
        return self._selected("SELECT number FROM entity ORDER BY concept_id")

    @_at_once
    def by_id(self) -> Iterator[Entity]:
        """The entities in order of concept id."""
        return self._read(self.numbers_by_id())

    def _read(self, numbers: np.ndarray) -> Iterator[Entity]:
        for start in range(0, len(numbers), _BLOCK):
            yield from self._store.entities(numbers[start : start + _BLOCK])

    @_at_once
    def number(self, id: str) -> int | None:
        """The number of the entity with this concept, alternative or retired id, or None.

        A concept id goes before another; of several entities, the first by concept id is meant.
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
        """The number of the entity with each of these concept ids: int64; -1 for no entity."""
        query = "SELECT key, number FROM json_each(?) JOIN entity ON concept_id = value"
        pairs = np.array(self._store.read(query, json.dumps(list(ids))), np.int64).reshape(-1, 2)
        places, found = pairs[self._is_live(pairs[:, 1])].T
        numbers = np.full(len(ids), -1, dtype=np.int64)
        numbers[places] = found
        return numbers

    @_at_once
    def entities(self, numbers: Sequence[int] | np.ndarray) -> list[Entity]:
        """The entities with these numbers, in the same order; IndexError for no entity's number."""
        return self._store.entities(self._checked(numbers))

    @_at_once
    def labels(self, numbers: Sequence[int] | np.ndarray) -> list[tuple[str, str]]:
        """The concept id and canonical name of each of these numbers; faster than ``entities``."""
        columns, checked = "concept_id, canonical_name", self._checked(numbers)
        return self._store.records(checked, columns, lambda *row: tuple(map(stored_text, row)))

    @_at_once
    def named(self, name: str) -> list[Entity]:
        """The entities with this name, sorted by concept id.

        Case, blanks and punctuation do not count. British spelling is tried too.
        """
        return sorted(self.entities(self.numbers_named(name)))

    @_at_once
    def numbers_named(self, name: str) -> np.ndarray:
        """The numbers of the entities that ``named`` returns: int64, ascending."""
        key = normalised(name)
        numbers = self._selected("SELECT number FROM name WHERE hash = ?", name_hash(key))
        if key in self._other_spellings:
            numbers = np.union1d(numbers, self._other_spellings[key])
        entities = self._store.entities(numbers) if len(numbers) else ()
        has_it = [key in map(normalised, entity.names) for entity in entities]
        if any(has_it):
            return numbers[has_it]
        if (spelled := american(key)) != key:
            return self.numbers_named(spelled)
        if self._in_any_order:
            numbers = self._names.owners_by_words(name).astype(np.int64)
            # Of its words and others that mean the same, its own come first.
            own, entities = stems_of(name), self._store.entities(numbers)
            has_it = [own in map(stems_of, entity.names) for entity in entities]
            return numbers[np.array(has_it)] if any(has_it) else numbers
        return numbers[:0]

    @_once
    def _other_spellings(self) -> dict[str, list[int]]:
        """The owners of names that are not ASCII, which KBs of older versions stored in another form."""
        if self.settings.get("plain_names"):
            return {}
        query = "SELECT number FROM entity WHERE canonical_name GLOB ?1 OR aliases GLOB ?1"
        numbers = self._selected(query, "*[^ -~]*")
        owners = defaultdict(list)
        for number, entity in zip(numbers.tolist(), self._store.entities(numbers)):
            for name in entity.names:
                if not name.isascii():
                    owners[normalised(name)].append(number)
        return owners

    @_once
    def _names(self) -> NameFinder:
        return self.name_finder()

    @_at_once
    def name_finder(
        self, progress: Callable[[Iterable[Entity]], Iterable[Entity]] = iter, **choice: Any
    ) -> NameFinder:
        """What finds the names in texts. The first use makes its files, if the folder can be written to.

        ``progress`` wraps the entities that are read. ``choice`` are arguments of the class.
        """
        table = self.stored_names()
        if table is None:
            table = self.name_table(progress)
            with suppress(OSError):
                store_names(self.path, self.names_stem, table)
        return NameFinder(table, **choice)

    @property
    def names_stem(self) -> str:
        """How the name of the file of its names begins."""
        how = "-any-order" * self._in_any_order + "-3"  # older kinds were not of plain names
        return f"{NAMES_PREFIX}{self.settings['checksum'][:16]}{how}"

    @property
    def _in_any_order(self) -> bool:
        return bool(self.settings.get("in_any_order"))

    def stored_names(self) -> np.ndarray | None:
        """The table of its names that is kept in the folder; None if it is not there, or not whole."""
        return stored_names(self.path, self.names_stem, self._count, self._in_any_order)

    def name_table(
        self, progress: Callable[[Iterable[Entity]], Iterable[Entity]] = iter
    ) -> np.ndarray:
        """The table of its names, made of its entities; see ``name_finder``."""
        return name_table(progress(self), self.numbers(), self._in_any_order)

    @_at_once
    def definitions(self, acronym: str) -> Mapping[int, int]:
        """How many texts defined an acronym for an entity, by its number; see ``kb learn --acronyms``."""
        return self._definitions.get(normalised(acronym), {})

    @property
    def acronyms(self) -> Collection[str]:
        """The acronyms that texts define, in lower case; see ``definitions``."""
        return self._definitions.keys()

    @_once
    def _definitions(self) -> dict[str, Counter[int]]:
        query = (
            "SELECT json_extract(row.value, '$[0]'), number, json_extract(row.value, '$[2]') "
            "FROM setting, json_each(setting.value) AS row "
            "JOIN entity ON concept_id = json_extract(row.value, '$[1]') "
            "WHERE name GLOB 'acronyms of *' AND json_extract(row.value, '$[2]') > 0"
        )
        rows = self._store.read(
            query, make=lambda name, n, count: (normalised(stored_text(name)), n, int(count))
        )
        counts: dict[str, Counter[int]] = defaultdict(Counter)
        live = self._is_live(np.array([number for _, number, _ in rows], dtype=np.int64))
        for acronym, number, count in compress(rows, live):
            counts[acronym][number] += count
        return counts

    @_at_once
    def found(self, text: str, limit: int = 10) -> list[Entity]:
        """The entity with this id, or those whose names hold all words of the text, most similar first.

        Of more than 10,000 only the first are compared, and those with the text as a name.
        """
        if text in self:
            return [self[text]]
        numbers = self.numbers_named(text)
        if matched := " ".join(f'"{word}"' for word in words(text)):
            numbers = np.union1d(numbers, self._selected(_HOLDING, matched, _COMPARED))

        def rank(entity: Entity) -> tuple[float, Entity]:
            return -max(name_similarity(text, name) for name in entity.names), entity

        return sorted(self._store.entities(numbers), key=rank)[:limit]

    @_at_once
    def near(self, names: Sequence[str], k: int) -> np.ndarray:
        """For each name the k entities that share its rarest words: int64 [n, k]; -1 for no entity.

        Of a word the beginning counts, so that "diabetic" and "diabetes" are one. A word that more than
        10,000 entities have counts only in a name that has no other.
        """

        @cache
        def holding(query: str) -> np.ndarray:
            return self._selected(_HOLDING, query, _COMPARED)

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

    @_once
    def rarity(self) -> Callable[[str], float]:
        """Tells how rare a word is in names, by its stem: a logarithm, 0 if all entities have it."""
        store, n_entities = self._store, len(self)  # the KB itself would be kept by what it keeps

        @lru_cache(_REMEMBERED)
        def of(stem: str) -> float:
            forms = [f'"{w}"' if len(w) < 4 else f'"{w.removesuffix("i")}"*' for w in words(stem)]
            n_owners = store.read(_COUNTED, " ".join(forms), _COMPARED)[0][0] if forms else 0
            return log((1 + n_entities) / (1 + n_owners))

        return of

    @_at_once
    def of_types(self, *names_or_codes: str) -> np.ndarray:
        """The numbers of the entities of these types and types below: int64, ascending.

        "" stands for entities without a type. PelError if the KB does not have one of the types.
        """
        names: set[str] = set()
        for wanted in filter(None, names_or_codes):
            meant = {type.name for type in types_meant(wanted, self.semantic_types)}
            if not meant:
                known = sorted({type.name for type in self.semantic_types})
                some = ", ".join(map(repr, known[:20])) + " …" * (len(known) > 20) or "none"
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
        """The numbers of the entities of these sources: int64, ascending; PelError if there are none."""
        known = self._store.read("SELECT DISTINCT source FROM sourced", make=stored_text)
        for name in set(names) - set(known):
            some = ", ".join(sorted(known)[:20]) or "none"
            problem = f"{self.path}: no entity comes from {name!r}"
            raise PelError(problem, f"choose one of its sources: {some}")
        return self._posted("sourced", "source", names)

    @_at_once
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

    @_at_once
    def n_bytes(self) -> int:
        """The size of the files of the KB."""
        sizes = [file["bytes"] for file in vector_files(self.settings)]
        return (self.path / KB_FILE).stat().st_size + sum(sizes)

    @_at_once
    def check_vocabularies(self, vocabularies: Iterable[str]) -> None:
        """Raises PelError unless entities have codes in each vocabulary (``Entity.codes``).

        At worst all records are read, which takes seconds for millions.
        """
        query = (
            "SELECT number FROM entity WHERE instr(lower(xrefs), lower(?1)) "
            "OR instr(lower(alt_ids), lower(?1)) "
            "OR instr(lower('\"' || concept_id), lower(?1)) = 1 LIMIT 1"
        )
        for name in vocabularies:
            if not self._store.read(query, f'"{name}:'):
                some = islice(self, _COMPARED)
                ids = (id for e in some for id in (e.concept_id, *e.alt_ids, *e.xrefs))
                known = ", ".join(sorted({id.partition(":")[0] for id in ids if ":" in id}))
                problem = f"{self.path}: no entity has a code of {name!r}"
                raise PelError(problem, f"choose of its vocabularies: {known or 'none'}")

    @_once
    def semantic_types(self) -> list[SemanticType]:
        """The types that the sources defined, also if no entity has them, then those of entities.

        A type with only a name is left out if one of this name has a code or a tree number.
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
        """As in scispaCy: ``get_canonical_name`` gives the name of a type by its code, or KeyError."""
        names = {type.code or type.name: type.name for type in self.semantic_types}
        return SimpleNamespace(get_canonical_name=names.__getitem__)

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
    def index_unit(self) -> str:
        """What one row stands for, for example "entity" or "name" (see ``text.entity_texts``)."""
        return self.vectors.settings["index_unit"]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the encoder that made the vectors."""
        return self.vectors.settings["fingerprint"]

    @_at_once
    def check_fingerprint(self, fingerprint: str) -> None:
        """Raises PelError unless this encoder made the vectors."""
        if self.fingerprint != fingerprint:
            both = f"{self.fingerprint}, not {fingerprint}"
            problem = f"{self.path}: its vectors were made by another encoder ({both})"
            raise PelError(problem, f"run: python -m spacy pel kb embed {self.path} PIPELINE")

    @_once
    def vectors(self) -> StoredVectors:
        """The vectors as they are stored; PelError if the KB has none."""
        if not self.has_vectors:
            remedy = f"run: python -m spacy pel kb embed {self.path} PIPELINE"
            raise PelError(f"{self.path} has no vectors", remedy)
        return StoredVectors(self.path, self.settings, self._store)

    @_once
    def mentions(self) -> KnownMentions:
        """The mentions that the KB has learnt (``pel kb learn --mentions``)."""
        is_live = partial(_are_live, self._count, self._removed)
        return KnownMentions(self._store, self.settings, is_live)

    @property
    def corrections(self) -> Corrections:
        """What people decided about names (``pel fix``), as it is now, whenever the KB was opened."""
        return self._corrections.now()

    @_at_once
    def search(
        self,
        vectors: np.ndarray,
        k: int,
        only: SearchFilter | None = None,
        *,
        with_mentions: bool = True,
    ) -> Candidates:
        """The k best entities of each query, scored by the best of their rows, then by concept id.

        ``vectors`` are float32 [n, dim]. ``only`` says which entities may be found: still k, if the KB has
        that many. ``with_mentions``: learnt mentions near a query add to the score (``mentions``).
        PelError if the KB has no vectors, queries do not fit them, or it lacks a type or source.
        """
        stored, allowed = self.vectors, self._allowed(only)
        if self.settings["mentions"] and with_mentions:
            return self.mentions.search(stored, vectors, k, allowed)
        return stored.search(vectors, k, allowed)

    @_at_once
    def rows(self, numbers: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Vectors, float32 [n, dim], and of each the place of its entity in ``numbers``, int64 [n].

        They are in the order of ``numbers``. PelError if the KB has no vectors.
        """
        return self.vectors.rows(np.asarray(numbers, dtype=np.int64))

    # What was in the KB when it was opened

    @_once
    def _removed(self) -> np.ndarray:
        """The numbers that had been removed: int64, ascending."""
        query = "SELECT number FROM removed WHERE change <= ? ORDER BY number"
        return self._store.numbers(query, self.settings["change"])

    def _is_live(self, numbers: np.ndarray) -> np.ndarray:
        return _are_live(self._count, self._removed, numbers)

    def _selected(self, query: str, *parameters: object) -> np.ndarray:
        """The numbers of entities that a query selects: int64."""
        numbers = self._store.numbers(query, *parameters)
        return numbers[self._is_live(numbers)]

    def _posted(self, table: str, column: str, keys: Collection[str]) -> np.ndarray:
        query = f"SELECT numbers FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))"
        keys = json.dumps(sorted(keys))
        postings = self._store.read(query, keys, make=lambda blob: np.frombuffer(blob, POSTING))
        numbers = np.unique(np.concatenate([np.empty(0, np.int64), *postings]))
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
        mask = self._masks.get(only)
        if mask is None:
            mask = np.zeros(self._count, dtype=bool)
            mask[self.matching(only)] = True
            for old in list(self._masks)[: 1 - _KEPT]:  # but the last ones
                self._masks.pop(old, None)
            self._masks[only] = mask
        return mask


def _are_live(count: int, removed: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Whether numbers are below a count, and not among those that were removed, ascending: bool [n]."""
    known = (numbers >= 0) & (numbers < count)
    if len(removed):
        known &= removed.take(removed.searchsorted(numbers), mode="clip") != numbers
    return known


def _seen(folder: Path) -> tuple[Store, Settings]:
    """The database of a KB's folder, with its files of vectors held open, and its settings."""
    while True:
        store = Store(folder)
        settings = store.settings()
        try:
            with readable(folder):
                store.hold(vector_files(settings))
            return store, settings
        except PelError:
            store.close()
            if checked_settings(folder) == settings:
                raise


def verify(path: str | Path, *, progress: Report | None = None) -> list[PelError]:
    """The problems of a KB folder, each with its remedy; an empty list if the KB is whole.

    Files are compared with their checksums: the database only if it was not changed since it was built,
    embedded or assembled. Then SQLite checks it, look-up tables are made again from the records and
    compared, and so are the names; other rows are compared with their sum. It takes as long as to
    build the KB. ``progress`` is called with the number of bytes read since the last call.
    """
    try:
        with KnowledgeBase.open(path) as kb:
            return _faults(kb, progress)
    except PelError as error:
        return [error]


def _faults(kb: KnowledgeBase, progress: Report | None = None) -> list[PelError]:
    """The faults of files, or, if none has one, of what they say; PelError for one that ends the search.

    Of files that have a checksum, every byte counts. In a database that was changed since it had one, all
    rows do: its tables and indexes are whole, look-up tables are what the records give, and the other
    rows agree with their sum. What is left are bytes that SQLite does not use.
    """
    path = kb.path / KB_FILE
    checksums = {file["name"]: file["sha256"] for file in vector_files(kb.settings)}
    written = kb.path / CHECKSUMS
    with readable(kb.path):
        if plain_file_size(written) is not None:
            try:
                checksums[KB_FILE] = json.loads(written.read_bytes())[KB_FILE]["sha256"]
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                raise PelError(f"{written}: cannot be read", "delete it") from error
        changed = [n for n in checksums if sha256(kb.path / n, progress) != checksums[n]]
    if changed:
        fault = "does not agree with its checksum"
        return [PelError(f"{kb.path / name}: {fault}", COPY_OR_BUILD) for name in changed]
    with kb._store.reading(), copied(path) as copy:
        fault = fault_of_tables(copy, kb.settings)
        if fault is None and len(kb) != len(kb.numbers()):
            fault = f"counts {len(kb)} entities where there are {len(kb.numbers())}"
        if fault is None:
            _read_vectors_and_mentions(kb)
            if noted_sum(copy) not in (None, row_sum(copy)):
                fault = "its rows do not agree with their sum"
    if fault is not None:
        return [PelError(f"{path}: {fault}", COPY_OR_BUILD)]
    if names_files(kb.path, kb.names_stem):
        stored = kb.stored_names()
        if stored is None or stored.tobytes() != kb.name_table().tobytes():
            names = f"{kb.path / kb.names_stem}*"
            return [PelError(f"{names}: is not of the names of this KB", "delete it")]
    return []


def _read_vectors_and_mentions(kb: KnowledgeBase) -> None:
    """PelError if what is read of them does not fit."""
    if kb.has_vectors:
        kb.vectors.parts
    if kb.mentions:
        kb.mentions.passages()
        if kb.has_vectors:
            kb.mentions.index
