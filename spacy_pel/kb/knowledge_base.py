"""The one way into a KB folder: its records, its vectors and its manifest behind one class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import PelError
from .folder.manifest import sound_manifest
from .folder.snapshot import Snapshot, opened_snapshot
from .known_mentions import KnownMentions, known_mentions
from .mention_search import search_with_mentions
from .record_look_up import looked_up
from .records.entity import Entity
from .records.semantic_types import SemanticType, known_types, with_descendants
from .records.store import EntityStore
from .records.type_tree import SemanticTypeTree
from .scispacy_mappings import CuiEntity, EntitiesById, IdsByName
from .search_filter import FilterMasks, SearchFilter
from .segment import Segment, segments_of
from .segment_search import search_segments
from .vectors.index import Candidates
from .verify import check_contents


class KnowledgeBase:
    """A knowledge base: entities, each with a number, and the vectors that stand for them.

    A KB is opened, not loaded. Records are read from SQLite when they are asked for, and the first
    search maps the vectors into memory. Whatever is written to the folder, the KB stays as it was
    when it was opened, until ``refresh``. It may be used after a fork. It may be pickled: a copy
    opens the same folder.

    Numbers ascend with concept ids within each segment. The numbers of removed entities are not
    used again until the KB is compacted. So take the numbers in use from ``numbers``, and store
    ids, not numbers.

    Attributes:
        path: The folder, absolute.
        manifest: What the folder holds, as its ``manifest.json`` says.
    """

    def __init__(self, path: str | Path) -> None:
        """Opens a KB folder.

        Raises:
            PelError: There is no KB in the folder, or it is not whole.
        """
        self.path = Path(path).absolute()
        self._see(opened_snapshot(self.path))

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = False) -> KnowledgeBase:
        """The KB of a folder.

        Args:
            path: The folder.
            verify: Whether to check every byte first, as ``pel kb verify`` does. It takes about a
                second for 500 MB. Otherwise the manifest and the sizes of files are checked now,
                and each file when it is first read: with its checksum if it takes up to 128 MiB,
                and else the form and range of what look-ups and searches read.

        Raises:
            PelError: There is no KB in the folder, or it is not whole.
        """
        if verify:
            check_contents(path)
        return cls(path)

    def __reduce__(self) -> tuple[type[KnowledgeBase], tuple[str]]:
        return KnowledgeBase, (str(self.path),)

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files. A later look-up opens them again; PelError if they are gone by then."""
        if self._snapshot is not None:
            for segment in (*self._segments, *self._mentions.segments):
                segment.close()
            self._snapshot.close()
            self._snapshot = None

    def refresh(self) -> bool:
        """Opens the folder as it is now.

        Returns:
            Whether the KB had changed. If so, its numbers have changed as well.

        Raises:
            PelError: There is no KB in the folder, or it is not whole. The KB then stays as it was.
        """
        if sound_manifest(self.path) == self.manifest:
            return False
        snapshot = opened_snapshot(self.path)
        self.close()
        self._see(snapshot)
        return True

    def _see(self, snapshot: Snapshot) -> None:
        self.manifest = snapshot.manifest
        self._snapshot: Snapshot | None = snapshot
        self._segments = segments_of(self.path, snapshot.manifest)
        self._mentions = known_mentions(self.path, self.manifest, self._segments)
        self._masks = FilterMasks()
        self._semantic_types: list[SemanticType] | None = None

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first, for code that reads the KB as a whole."""
        if self._snapshot is None:
            self._see(Snapshot(self.path, self.manifest))
        return self._segments

    # Records

    def __len__(self) -> int:
        return self.manifest["counts"]["entities"]

    def __contains__(self, id: str) -> bool:
        return self.number(id) is not None

    def __getitem__(self, id: str) -> Entity:
        """The entity with this concept, alternative or retired id.

        Raises:
            KeyError: There is none.
        """
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
        return self._live_numbers(lambda segment: np.arange(segment.count))

    def number(self, id: str) -> int | None:
        """The number of the entity with this concept, alternative or retired id, or None.

        If the id is the concept id of one entity and an alternative or retired id of another, the
        first is returned. If several entities have it as an alternative or retired id, the one
        whose concept id sorts first is returned.
        """
        for look_up in (EntityStore.number, EntityStore.alternative):
            local = [(segment, look_up(segment.store, id)) for segment in self.segments]
            numbers = [s.first + n for s, n in local if n is not None and s.is_live(n)]
            if numbers:
                return (
                    numbers[0]
                    if len(numbers) == 1
                    else min(numbers, key=lambda n: self.labels([n]))
                )
        return None

    def entities(self, numbers: Sequence[int] | np.ndarray) -> list[Entity]:
        """The entities with these numbers, in the same order.

        Raises:
            IndexError: No entity has one of the numbers.
        """
        return looked_up(self.segments, EntityStore.entities, numbers)

    def labels(self, numbers: Sequence[int] | np.ndarray) -> list[tuple[str, str]]:
        """The concept id and canonical name of each of these numbers; faster than ``entities``.

        Raises:
            IndexError: No entity has one of the numbers.
        """
        return looked_up(self.segments, EntityStore.labels, numbers)

    def named(self, name: str, exact: bool = False) -> list[Entity]:
        """The entities with this name, sorted by concept id.

        Args:
            name: The name.
            exact: Whether the name must be written the same. Otherwise differences of case, blanks,
                punctuation and Unicode compatibility form do not count.
        """
        return sorted(self.entities(self.numbers_named(name, exact)))

    def numbers_named(self, name: str, exact: bool = False) -> np.ndarray:
        """The numbers of the entities that ``named`` returns: int64, ascending."""
        return self._live_numbers(lambda segment: segment.store.named(name, exact))

    def found(self, text: str, limit: int = 10) -> list[Entity]:
        """The entities whose names contain all words of the text, the most similar name first."""
        ranked: list[tuple[float, Entity]] = []
        for segment in self.segments:
            # Some of those found may have been removed: ask for that many more.
            pairs = segment.store.found(text, limit + len(segment.removed))
            live = [(number, rank) for number, rank in pairs if segment.is_live(number)][:limit]
            entities = segment.store.entities([number for number, _ in live])
            ranked += [(-rank, entity) for (_, rank), entity in zip(live, entities)]
        return [entity for _, entity in sorted(ranked)[:limit]]

    def of_types(self, *names_or_codes: str) -> np.ndarray:
        """The numbers of the entities that have one of these types, or a type below one of them.

        Args:
            names_or_codes: Names or codes of semantic types. "" stands for entities without a type.

        Returns:
            int64, ascending.

        Raises:
            PelError: The KB does not have one of the types.
        """
        names = with_descendants(filter(None, names_or_codes), self.semantic_types)
        numbers = self._live_numbers(lambda segment: segment.store.of_types(names))
        if "" not in names_or_codes:
            return numbers
        all_names = {type.name for type in self.semantic_types}
        typed = self._live_numbers(lambda segment: segment.store.of_types(all_names))
        return np.union1d(numbers, np.setdiff1d(self.numbers(), typed, assume_unique=True))

    def of_sources(self, *names: str) -> np.ndarray:
        """The numbers of the entities that come from any of these sources: int64, ascending.

        Raises:
            PelError: No entity comes from one of the sources.
        """
        known = {name for segment in self.segments for name in segment.store.sources()}
        for name in names:
            if name not in known:
                some = ", ".join(sorted(known)[:20]) or "none"
                raise PelError(
                    f"{self.path}: no entity comes from {name!r}",
                    f"choose one of its sources: {some}",
                )
        return self._live_numbers(lambda segment: segment.store.of_sources(names))

    @property
    def semantic_types(self) -> list[SemanticType]:
        """The types of the entities, with code and tree number where the source gave them.

        Types above them in the tree may be listed even if no entity has them.
        """
        if self._semantic_types is None:
            types = [type for segment in self.segments for type in segment.store.semantic_types()]
            self._semantic_types = known_types(types)
        return list(self._semantic_types)

    @property
    def semantic_type_tree(self) -> SemanticTypeTree:
        """The types as a tree, as in scispaCy's UmlsKnowledgeBase."""
        return SemanticTypeTree(self.semantic_types)

    @property
    def cui_to_entity(self) -> Mapping[str, CuiEntity]:
        """From ids to entities, as in scispaCy's KnowledgeBase, read from the KB when asked for."""
        return EntitiesById(self)

    @property
    def alias_to_cuis(self) -> Mapping[str, set[str]]:
        """From exact names to sets of ids, as in scispaCy's KnowledgeBase, read when asked for."""
        return IdsByName(self)

    # Vectors

    @property
    def has_vectors(self) -> bool:
        """Whether the KB was embedded."""
        return self.manifest["vectors"] is not None

    @property
    def dim(self) -> int:
        """The length of the vectors, and so of queries.

        Raises:
            PelError: The KB has no vectors.
        """
        return self._vectors["dim"]

    @property
    def stored_dim(self) -> int:
        """The length of the vectors as stored: ``dim``, or less after ``pel kb reduce``."""
        self._vectors  # raises if there are no vectors
        projection = self.segments[0].projection
        return projection.width if projection else self.dim

    @property
    def row_kind(self) -> str:
        """What one row stands for, for example "entity" or "name" (see ``reading.proxies``)."""
        return self._vectors["row_kind"]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the encoder that made the vectors."""
        return self._vectors["fingerprint"]

    def check_fingerprint(self, fingerprint: str) -> None:
        """Checks that this encoder made the vectors.

        Raises:
            PelError: Another encoder made them, or there are none.
        """
        if self.fingerprint != fingerprint:
            raise PelError(
                f"{self.path}: its vectors were made by another encoder ({self.fingerprint}, not "
                f"{fingerprint})",
                f"run: {self._embed_command}",
            )

    def search(self, vectors: np.ndarray, k: int, only: SearchFilter | None = None) -> Candidates:
        """The k best entities of each query, scored by the best of their rows.

        If the KB has learnt mentions, those near a query add to the score (``mention_search``).

        Entities with equal scores are sorted by concept id.

        Args:
            vectors: The queries, float32 [n, dim].
            k: The number of candidates for each query.
            only: The entities that may be found. The answer still holds k of them, if the KB has
                that many with vectors.

        Raises:
            PelError: The KB has no vectors, the queries do not fit them, or the KB does not have a
                type or a source of the filter.
        """
        self._vectors  # raises if there are no vectors
        if only is not None:
            allowed = self._masks.masks(self, only)
        else:
            allowed = [segment.live if len(segment.removed) else None for segment in self.segments]
        if not self.mentions:
            return search_segments(self.segments, vectors, k, allowed)
        return search_with_mentions(self.segments, self.mentions, vectors, k, allowed)

    @property
    def mentions(self) -> KnownMentions:
        """The mentions that the KB has learnt (``pel kb learn --mentions``)."""
        self.segments  # opens a KB again that was closed
        return self._mentions

    def rows(self, numbers: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The stored rows of entities, in the order of ``numbers``.

        An entity that was added without being embedded has no rows.

        Args:
            numbers: The numbers of the entities.

        Returns:
            Vectors, float32 [n, dim], and for each the place of its entity in ``numbers``, int64 [n].

        Raises:
            PelError: The KB has no vectors.
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

    # The segments, seen as one

    def _live_numbers(self, local_numbers: Callable[[Segment], Sequence[int]]) -> np.ndarray:
        """The KB's numbers for those local numbers that were not removed: int64, ascending."""
        per_segment = [
            segment.first + segment.without_removed(local_numbers(segment))
            for segment in self.segments
        ]
        return np.concatenate([np.empty(0, dtype=np.int64), *per_segment])
