"""The rows of a KB: of entities and of learnt mentions, made by an encoder or taken from a KB."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from spacy.language import Language

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.mentions import MentionPassage
from ..kb.records.entity import Entity
from ..pipeline.pipelines import upstream_of
from ..reading.mention import DocumentContext, MentionInContext
from ..reading.proxies import entity_rows, proxy_texts

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


class StoredRows:
    """Rows of an embedded KB, for entities whose texts have not changed since."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb

    def check(self, encoder: LinkerRows) -> None:
        """Raise PelError if the KB is damaged, or its rows are not those the encoder would make."""
        kb = self.kb
        KnowledgeBase.open(kb.path, verify=True).close()
        if not kb.has_vectors:
            raise PelError(f"{kb.path}: has no vectors that could be re-used", "embed without it")
        if kb.stored_dim < kb.dim:
            raise PelError(f"{kb.path}: its vectors were reduced", "embed without re-using them")
        if (kb.fingerprint, kb.row_kind) != (encoder.fingerprint, encoder.row_kind):
            problem = f"{kb.path}: its vectors are those of another encoder or row kind"
            raise PelError(problem, "give the pipeline that made them, or embed without it")

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """The rows of those entities that have not changed; see ``LinkerRows.rows``."""
        numbers = self.kb.numbers_of([entity.concept_id for entity in entities])
        present = np.flatnonzero(numbers >= 0)
        kind, found = self.kb.row_kind, []
        for place, old in zip(present.tolist(), self.kb.entities(numbers[present])):
            texts = proxy_texts(entities[place], kind)
            if proxy_texts(old, kind) == texts:
                found.append((place, numbers[place], len(texts)))
        places, numbers, counts = np.array(found, dtype=np.int64).reshape(-1, 3).T
        vectors, owners = self.kb.rows(numbers)
        whole = np.bincount(owners, minlength=len(places)) == counts  # one may lack its rows
        return vectors[whole[owners]], places[owners[whole[owners]]]


class LinkerMentions:
    """Encodes mentions with the retriever of a linker. It is a ``kb.mention_changes.MentionEncoder``."""

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
        docs = [self._nlp.make_doc(text) for text in texts]
        for name in upstream_of(self._nlp, self.linker.name):
            docs = list(self._nlp.get_pipe(name).pipe(docs))
        return read_documents(self.linker.model, docs)[0]
