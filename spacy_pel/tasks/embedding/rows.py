"""Where the rows of entities come from: an encoder, or a KB that has them already."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...errors import PelError
from ...kb.knowledge_base import KnowledgeBase
from ...kb.records.entity import Entity
from ...reading.proxies import entity_rows, proxy_texts

if TYPE_CHECKING:
    from ...linking.retriever import Retriever
    from ...pipeline.proxy_linker import ProxyLinker


class EncodedRows:
    """Rows that a retriever encodes: a ``RowEncoder`` of the KB's changes (``kb.row_encoder``)."""

    def __init__(self, retriever: Retriever, row_kind: str) -> None:
        self.retriever = retriever
        self.row_kind = row_kind
        self.dim = retriever.width

    @cached_property
    def fingerprint(self) -> str:
        return self.retriever.entity_fingerprint()

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """Vectors, float32 [n, dim], and the place of each one's entity among them, int64 [n]."""
        return entity_rows(entities, self.row_kind, self.retriever.entity_vectors)


class LinkerRows(EncodedRows):
    """The rows of a pipeline's linker. Raises PelError if it has no weights."""

    def __init__(self, linker: ProxyLinker) -> None:
        super().__init__(linker.retriever, linker.cfg["row_kind"])


class StoredRows:
    """Rows that ``embed_kb`` wrote, for entities whose texts are the same still."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb

    def check(self, encoder: EncodedRows) -> None:
        """Raises PelError if the encoder would not have made these rows."""
        kb = self.kb
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
        """The rows that are there, as ``EncodedRows.rows`` gives those of all entities."""
        places, numbers, counts = self._unchanged(entities)
        vectors, owners = self.kb.rows(numbers)
        whole = np.bincount(owners, minlength=len(places)) == counts  # one may lack its rows
        return vectors[whole[owners]], places[owners[whole[owners]]]

    def _unchanged(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the entities that have the same texts here: their places among those given, their
        numbers here, and how many rows each has to have. int64 [n] each."""
        numbers = [self.kb.number(entity.concept_id) for entity in entities]
        present = [place for place, number in enumerate(numbers) if number is not None]
        found = []
        for place, old in zip(present, self.kb.entities([numbers[place] for place in present])):
            texts = proxy_texts(entities[place], self.kb.row_kind)
            if proxy_texts(old, self.kb.row_kind) == texts:
                found.append((place, numbers[place], len(texts)))
        places, numbers, counts = np.array(found, dtype=np.int64).reshape(-1, 3).T
        return places, numbers, counts
