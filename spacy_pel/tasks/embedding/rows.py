"""The rows of entities: made by an encoder, or taken from a KB that has them already."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...errors import PelError
from ...kb.folder.checksums import check_files
from ...kb.knowledge_base import KnowledgeBase
from ...kb.records.entity import Entity
from ...reading.proxies import entity_rows, proxy_texts

if TYPE_CHECKING:
    from ...linking.retriever import Retriever
    from ...pipeline.proxy_linker import ProxyLinker


class EncodedRows:
    """Rows that a retriever encodes. It is a ``kb.writing.row_encoder.RowEncoder``.

    Attributes:
        retriever: The retriever.
        row_kind: What a row stands for, see ``reading.proxies``.
        dim: The width of the vectors.
    """

    def __init__(self, retriever: Retriever, row_kind: str) -> None:
        self.retriever = retriever
        self.row_kind = row_kind
        self.dim = retriever.width

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the entity encoder, as the KB's manifest has it."""
        return self.retriever.entity_fingerprint()

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """Encode the rows of entities.

        Args:
            entities: The entities.

        Returns:
            The vectors, float32 [n, dim], and for each the place of its entity in ``entities``,
            int64 [n].
        """
        return entity_rows(entities, self.row_kind, self.retriever.entity_vectors)


class LinkerRows(EncodedRows):
    """Rows that the retriever of a linker encodes. Raises PelError if the linker has no weights."""

    def __init__(self, linker: ProxyLinker) -> None:
        super().__init__(linker.retriever, linker.cfg["row_kind"])


class StoredRows:
    """Rows of an embedded KB, for entities whose texts have not changed since."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb

    def check(self, encoder: EncodedRows) -> None:
        """Raise PelError if the KB is damaged, or its rows are not those the encoder would make."""
        kb = self.kb
        check_files(kb.path, kb.manifest["files"], kb.manifest["files"])
        if not kb.has_vectors:
            raise PelError(f"{kb.path}: has no vectors that could be re-used", "embed without it")
        if kb.stored_dim < kb.dim:
            raise PelError(f"{kb.path}: its vectors were reduced", "embed without re-using them")
        if (kb.fingerprint, kb.row_kind) != (encoder.fingerprint, encoder.row_kind):
            raise PelError(
                f"{kb.path}: its vectors are those of another encoder or row kind, and cannot be "
                "re-used",
                "give the pipeline that made them, or embed without it",
            )

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """The rows of those entities that have not changed; see ``EncodedRows.rows``."""
        places, numbers, counts = self._unchanged(entities)
        vectors, owners = self.kb.rows(numbers)
        whole = np.bincount(owners, minlength=len(places)) == counts  # one may lack its rows
        return vectors[whole[owners]], places[owners[whole[owners]]]

    def _unchanged(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The entities that have the same texts in this KB, as three arrays, int64 [n].

        They are: the places in ``entities``, the numbers in this KB, and the numbers of rows.
        """
        numbers = [self.kb.number(entity.concept_id) for entity in entities]
        present = [place for place, number in enumerate(numbers) if number is not None]
        found = []
        for place, old in zip(present, self.kb.entities([numbers[place] for place in present])):
            texts = proxy_texts(entities[place], self.kb.row_kind)
            if proxy_texts(old, self.kb.row_kind) == texts:
                found.append((place, numbers[place], len(texts)))
        places, numbers, counts = np.array(found, dtype=np.int64).reshape(-1, 3).T
        return places, numbers, counts
