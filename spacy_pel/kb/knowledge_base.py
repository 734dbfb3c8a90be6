"""A KB folder behind one door: its segments of records and vectors, and the manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import PelError
from .folder.manifest import sound_manifest
from .folder.snapshot import HeldFiles, held_files
from .records.entity import Entity, SemanticType
from .records.store import EntityStore
from .records.type_tree import SemanticTypeTree
from .scispacy_mappings import CuiEntity, EntitiesById, IdsByName
from .search_filter import FilterMasks, SearchFilter, known_types, with_descendants
from .segment import Segment, segments_of
from .segment_search import search_segments
from .vectors.index import Candidates

T = TypeVar("T")


class KnowledgeBase:
    """Entities, each with a number, and the vectors that stand for them.

    Opened, not loaded: records are read from SQLite when asked for, vectors are mapped into memory
    by the first search. It stays as it was when it was opened, whatever is written to the folder,
    until ``refresh``. It may be used after a fork, and pickled: a copy opens the same folder.

    Numbers ascend with concept ids within each segment; those of removed entities are not given
    again until the KB is compacted, so ask ``numbers`` for them, and keep ids, not numbers.
    """

    def __init__(self, path: str | Path) -> None:
        """Opens a KB folder; PelError, with the remedy, if there is none or it is not whole."""
        self.path = Path(path).absolute()
        self._see(*held_files(self.path))

    @classmethod
    def open(cls, path: str | Path) -> KnowledgeBase:
        """The KB of a folder; PelError, with the remedy, if there is none or it is not whole."""
        return cls(path)

    def __reduce__(self) -> tuple[type[KnowledgeBase], tuple[str]]:
        return KnowledgeBase, (str(self.path),)

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files; a later look-up opens them again, PelError if they are gone."""
        if self._files is not None:
            for segment in self._segments:
                segment.close()
            self._files.close()
            self._files = None

    def refresh(self) -> bool:
        """Sees the folder as it is now; whether it had changed, and with it the numbers.

        Raises PelError as opening does, and then sees what it saw before.
        """
        if sound_manifest(self.path) == self.manifest:
            return False
        manifest, files = held_files(self.path)
        self.close()
        self._see(manifest, files)
        return True

    def _see(self, manifest: dict[str, Any], files: HeldFiles) -> None:
        self.manifest = manifest
        self._files: HeldFiles | None = files
        self._segments = segments_of(self.path, manifest)
        self._selections = FilterMasks()
        self._semantic_types: list[SemanticType] | None = None

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first, for those who read the KB as a whole."""
        if self._files is None:
            self._see(self.manifest, HeldFiles(self.path, self.manifest))
        return self._segments

    # Records

    def __len__(self) -> int:
        return self.manifest["counts"]["entities"]

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
        for segment in self.segments:
            for number, entity in enumerate(segment.store):
                if segment.is_live(number):
                    yield entity

    def numbers(self) -> np.ndarray:
        """The numbers of the entities: int64 [len], ascending."""
        return self._gathered(lambda segment: np.arange(segment.count))

    def number(self, id: str) -> int | None:
        """The number of the entity with this concept, alternative or retired id, or None.

        A concept id goes before the others; of several that have the id, the first by concept id.
        """
        for look_up in (EntityStore.number, EntityStore.alternative):
            local = [(segment, look_up(segment.store, id)) for segment in self.segments]
            numbers = [s.first + n for s, n in local if n is not None and s.is_live(n)]
            if numbers:
                return numbers[0] if len(numbers) == 1 else min(numbers, key=self._concept_id)
        return None

    def entities(self, numbers: Sequence[int] | np.ndarray) -> list[Entity]:
        """The entities of these numbers, in their order; IndexError for an unknown number."""
        return self._looked_up(EntityStore.entities, numbers)

    def labels(self, numbers: Sequence[int] | np.ndarray) -> list[tuple[str, str]]:
        """Pairs (concept id, canonical name) of these numbers; quicker than whole entities.

        Raises IndexError for an unknown number.
        """
        return self._looked_up(EntityStore.labels, numbers)

    def named(self, name: str, exact: bool = False) -> list[Entity]:
        """The entities with this name, by concept id.

        Unless exact, names are the same that differ only in case, blanks, punctuation or Unicode
        compatibility form.
        """
        return sorted(self.entities(self.numbers_named(name, exact)))

    def numbers_named(self, name: str, exact: bool = False) -> np.ndarray:
        """The numbers of the entities with this name, as of ``named``: int64, ascending."""
        return self._gathered(lambda segment: segment.store.named(name, exact))

    def found(self, text: str, limit: int = 10) -> list[Entity]:
        """The entities whose names hold all words of the text, those named most like it first."""
        ranked: list[tuple[float, Entity]] = []
        for segment in self.segments:
            # As many more as may turn out to be removed.
            pairs = segment.store.found(text, limit + len(segment.removed))
            live = [(number, rank) for number, rank in pairs if segment.is_live(number)][:limit]
            entities = segment.store.entities([number for number, _ in live])
            ranked += [(-rank, entity) for (_, rank), entity in zip(live, entities)]
        return [entity for _, entity in sorted(ranked)[:limit]]

    def of_types(self, *names_or_codes: str) -> np.ndarray:
        """The numbers of the entities of these semantic types, or of types below them: int64.

        "" stands for the entities without a type. Ascending. Raises PelError for a type that the
        KB does not have.
        """
        names = with_descendants(filter(None, names_or_codes), self.semantic_types)
        numbers = self._gathered(lambda segment: segment.store.of_types(names))
        if "" not in names_or_codes:
            return numbers
        all_names = {type.name for type in self.semantic_types}
        typed = self._gathered(lambda segment: segment.store.of_types(all_names))
        return np.union1d(numbers, np.setdiff1d(self.numbers(), typed, assume_unique=True))

    def of_sources(self, *names: str) -> np.ndarray:
        """The numbers of the entities that come from any of these sources: int64, ascending.

        Raises PelError for a source that no entity comes from.
        """
        known = {name for segment in self.segments for name in segment.store.sources()}
        for name in names:
            if name not in known:
                some = ", ".join(sorted(known)[:20]) or "none"
                raise PelError(f"{self.path}: no entity comes from {name!r}", f"it has: {some}")
        return self._gathered(lambda segment: segment.store.of_sources(names))

    @property
    def semantic_types(self) -> list[SemanticType]:
        """The types of the entities, with code and tree number where the source had them.

        Those above them in the tree may be among them though no entity has them.
        """
        if self._semantic_types is None:
            types = [type for segment in self.segments for type in segment.store.semantic_types()]
            self._semantic_types = known_types(types)
        return list(self._semantic_types)

    @property
    def semantic_type_tree(self) -> SemanticTypeTree:
        """The types as a tree, as scispaCy's UmlsKnowledgeBase has it."""
        return SemanticTypeTree(self.semantic_types)

    @property
    def cui_to_entity(self) -> Mapping[str, CuiEntity]:
        """From ids to entities, as scispaCy's KnowledgeBase has it; nothing is held."""
        return EntitiesById(self)

    @property
    def alias_to_cuis(self) -> Mapping[str, set[str]]:
        """From exact names to sets of ids, as scispaCy's KnowledgeBase has it; nothing is held."""
        return IdsByName(self)

    # Vectors

    @property
    def has_vectors(self) -> bool:
        return self.manifest["vectors"] is not None

    @property
    def dim(self) -> int:
        """Length of the queries."""
        return self._vectors["dim"]

    @property
    def stored_dim(self) -> int:
        """Length of the vectors at rest: that of queries, unless they were reduced."""
        self._vectors  # raises if there are none
        projection = self.segments[0].projection
        return projection.width if projection else self.dim

    @property
    def row_kind(self) -> str:
        """What a row stands for, in the words of who made the vectors (see ``proxies``)."""
        return self._vectors["row_kind"]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the encoder that made the vectors."""
        return self._vectors["fingerprint"]

    def check_fingerprint(self, fingerprint: str) -> None:
        """Raises PelError, with the remedy, if another encoder made the vectors, or none did."""
        if self.fingerprint != fingerprint:
            raise PelError(
                f"{self.path}: its vectors were made by another encoder ({self.fingerprint}, not "
                f"{fingerprint})",
                f"run: {self._embed_command}",
            )

    def search(self, vectors: np.ndarray, k: int, only: SearchFilter | None = None) -> Candidates:
        """The k best entities of each query vector, float32 [n, dim]; see VectorIndex.search.

        Equal scores go by concept id. only: the entities that may be found; there are k of them in
        the answer if the KB has so many with vectors.
        Raises PelError if the KB has no vectors, for queries that do not fit them, and for types
        and sources that the KB does not have.
        """
        self._vectors  # raises if there are none
        if only is not None:
            return search_segments(self.segments, vectors, k, self._selections.masks(self, only))
        allowed = [segment.live if len(segment.removed) else None for segment in self.segments]
        return search_segments(self.segments, vectors, k, allowed)

    def rows(self, numbers: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The stored rows of entities by their numbers, in the order of both.

        Vectors, float32 [n, dim], and the place of each one's entity in ``numbers``, int64 [n]. An
        entity that was added and not embedded has none.
        Raises PelError if the KB has no vectors.
        """
        wanted = np.asarray(numbers, dtype=np.int64)
        vectors, owners = [np.empty((0, self.dim), dtype=np.float32)], [wanted[:0]]
        for segment in self.segments:
            inside = (wanted >= segment.first) & (wanted < segment.first + segment.count)
            found, places = segment.rows(wanted[inside] - segment.first)
            vectors.append(found)
            owners.append(np.flatnonzero(inside)[places])
        order = np.argsort(np.concatenate(owners), kind="stable")
        return np.concatenate(vectors)[order], np.concatenate(owners)[order]

    @property
    def _vectors(self) -> dict[str, Any]:
        if not self.has_vectors:
            raise PelError(f"{self.path} has no vectors", f"run: {self._embed_command}")
        return self.manifest["vectors"]

    @property
    def _embed_command(self) -> str:
        return f"python -m spacy pel kb embed {self.path} PIPELINE"

    # Segments behind the door

    def _gathered(self, local_numbers: Callable[[Segment], Sequence[int]]) -> np.ndarray:
        """The numbers in the KB of those local ones that were not removed: int64, ascending."""
        parts = [
            segment.first + segment.without_removed(local_numbers(segment))
            for segment in self.segments
        ]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def _looked_up(
        self, look_up: Callable[[EntityStore, np.ndarray], list[T]], numbers: Sequence[int]
    ) -> list[T]:
        """What the stores say of these numbers, in their order; IndexError for an unknown one."""
        wanted = np.asarray(numbers, dtype=np.int64)
        firsts = [segment.first for segment in self.segments]
        owners = np.searchsorted(firsts, wanted, side="right") - 1
        answers: list = [None] * len(wanted)
        for owner in np.unique(owners):
            places = np.flatnonzero(owners == owner)
            segment = self.segments[max(owner, 0)]
            local = wanted[places] - segment.first
            segment.check(local)
            for place, answer in zip(places.tolist(), look_up(segment.store, local)):
                answers[place] = answer
        return answers

    def _concept_id(self, number: int) -> str:
        return self.labels([number])[0][0]
