"""A KB folder behind one door: records, vectors and manifest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import PelError
from .entity import Entity
from .index import Candidates, VectorIndex, mapped_index, mapped_rows
from .manifest import read_manifest
from .store import EntityStore


class KnowledgeBase:
    """Entities numbered 0 to len - 1 in order of concept id, and the vectors that stand for them.

    Opened, not loaded: records are read from SQLite when asked for, vectors are mapped into memory
    by the first search. It may be used after a fork, and pickled: a copy opens the same folder.
    """

    def __init__(self, path: str | Path) -> None:
        """Opens a KB folder; PelError, with the remedy, if there is none or it is not whole."""
        self.path = Path(path).absolute()
        self.manifest: dict[str, Any] = read_manifest(self.path)
        self._store = EntityStore(self.path / self.manifest["entities"]["file"])

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
        """Closes the files; a later look-up opens them again."""
        self._store.close()
        for name in ("_index", "row_entities"):
            self.__dict__.pop(name, None)

    def __len__(self) -> int:
        return self.manifest["counts"]["entities"]

    def __contains__(self, id: str) -> bool:
        return self.number(id) is not None

    def __getitem__(self, id: str) -> Entity:
        """The entity with this concept id or alternative id; KeyError if there is none."""
        number = self.number(id)
        if number is None:
            raise KeyError(id)
        return self.entities([number])[0]

    def __iter__(self) -> Iterator[Entity]:
        """The entities in order of number."""
        return iter(self._store)

    def number(self, id: str) -> int | None:
        """The number of the entity with this concept id or alternative id, or None."""
        return self._store.number(id)

    def entities(self, numbers: Sequence[int] | np.ndarray) -> list[Entity]:
        """The entities of these numbers, in their order; IndexError for an unknown number."""
        return self._store.entities(numbers)

    def labels(self, numbers: Sequence[int] | np.ndarray) -> list[tuple[str, str]]:
        """Pairs (concept id, canonical name) of these numbers; quicker than whole entities.

        Raises IndexError for an unknown number.
        """
        return self._store.labels(numbers)

    @property
    def has_vectors(self) -> bool:
        return self.manifest["vectors"] is not None

    @property
    def dim(self) -> int:
        return self._vectors["dim"]

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
                f"{fingerprint}); run: {self._embed_command}"
            )

    @cached_property
    def row_entities(self) -> np.ndarray:
        """The entity number of each row: int32 [n_rows], mapped into memory."""
        return mapped_rows(self.path / self._vectors["rows_file"])

    def search(self, vectors: np.ndarray, k: int) -> Candidates:
        """The k best entities of each query vector, float32 [n, dim]; see VectorIndex.search.

        Raises PelError if the KB has no vectors, and for queries that do not fit them.
        """
        return self._index.search(vectors, k)

    @cached_property
    def _index(self) -> VectorIndex:
        return VectorIndex(self.row_entities, mapped_index(self.path / self._vectors["file"]))

    @property
    def _vectors(self) -> dict[str, Any]:
        if not self.has_vectors:
            raise PelError(f"{self.path} has no vectors; run: {self._embed_command}")
        return self.manifest["vectors"]

    @property
    def _embed_command(self) -> str:
        return f"python -m spacy pel kb embed {self.path} PIPELINE"
