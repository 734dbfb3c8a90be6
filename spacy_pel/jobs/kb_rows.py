"""The rows of a KB that a linker encodes: of entities and of learnt mentions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from spacy.language import Language

from ..errors import PelError
from ..kb.mentions import MentionPassage
from ..kb.records.entity import Entity
from ..pipeline.pipelines import read_by_upstream
from ..reading.mention import DocumentContext, MentionInContext
from ..reading.proxies import entity_rows

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker


class LinkerRows:
    """Rows of entities that the retriever of a linker encodes. It is a ``kb.change.RowEncoder``.

    PelError if the linker has no weights.
    """

    def __init__(self, linker: ProxyLinker) -> None:
        self.retriever = linker.retriever
        self.row_kind = linker.cfg["row_kind"]
        self.dim = linker.retriever.width

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the entity encoder, as the KB has it."""
        return self.retriever.entity_fingerprint()

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """Vectors, float32 [n, dim], and for each the place of its entity in ``entities``, int64 [n]."""
        return entity_rows(entities, self.row_kind, self.retriever.entity_vectors)


class LinkerMentions:
    """Encodes mentions with the retriever of a linker. It is a ``kb.change.MentionEncoder``."""

    def __init__(self, linker: ProxyLinker, nlp: Language | None = None) -> None:
        """Take a linker, and its pipeline, which is needed if the linker listens to a component."""
        self.linker = linker
        self.dim = linker.retriever.width
        self._nlp = nlp

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the entity encoder, as the KB has it."""
        return self.linker.retriever.entity_fingerprint()

    @cached_property
    def mention_fingerprint(self) -> str:
        """The fingerprint of all that decides the vectors of mentions."""
        return self.linker.retriever.fingerprint()

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        """The vectors of the mentions of passages, float32 [n, dim], in their order."""
        mentions = [
            MentionInContext(passage.text, mention.start, mention.stop, document)
            for passage, document in zip(passages, self._read([p.text for p in passages]))
            for mention in passage.mentions
        ]
        return self.linker.retriever.mention_vectors(mentions)

    def _read(self, texts: Sequence[str]) -> list[DocumentContext]:
        """The contexts of texts, with the states that the linker listens to."""
        from ..architectures import tok2vec_of  # here: torch takes seconds
        from ..pipeline.doc_mentions import read_documents

        if tok2vec_of(self.linker.model) is None:
            return [DocumentContext() for _ in texts]
        if self._nlp is None:
            raise PelError("the linker shares what another component reads", "give its pipeline")
        docs = map(self._nlp.make_doc, texts)
        read = list(read_by_upstream(self._nlp, self.linker.name, docs))
        return read_documents(self.linker.model, read)[0]
