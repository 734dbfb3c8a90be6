"""The rows of mentions that a KB has learnt, encoded as a linker reads mentions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from spacy.language import Language

from ...errors import PelError
from ...kb.records.mention_store import MentionPassage
from ...pipeline.pipelines import upstream_of
from ...reading.mention import DocumentContext, MentionInContext

if TYPE_CHECKING:
    from ...pipeline.proxy_linker import ProxyLinker


class LinkerMentions:
    """Encodes mentions with the retriever of a linker (``kb.writing.row_encoder.MentionEncoder``).

    Attributes:
        linker: The linker.
        dim: The width of the vectors.
    """

    def __init__(self, linker: ProxyLinker, nlp: Language | None = None) -> None:
        """Take a linker, and its pipeline, which is needed if the linker listens to a component."""
        self.linker = linker
        self.dim = linker.retriever.width
        self._nlp = nlp

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the entity encoder, as the KB's manifest has it."""
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
        from ...architectures import tok2vec_of  # here: torch takes seconds
        from ...pipeline.listening import read_documents

        if tok2vec_of(self.linker.model) is None:
            return [DocumentContext() for _ in texts]
        if self._nlp is None:
            raise PelError("the linker shares what another component reads", "give its pipeline")
        docs = [self._nlp.make_doc(text) for text in texts]
        for name in upstream_of(self._nlp, self.linker.name):
            docs = list(self._nlp.get_pipe(name).pipe(docs))
        return read_documents(self.linker.model, docs)
