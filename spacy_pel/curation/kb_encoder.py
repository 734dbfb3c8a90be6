"""Encode entities and mentions of a KB with a linker, and change a KB that has vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from spacy.language import Language

from ..errors import PelError
from ..kb.change import ChangeCounts, change_entities
from ..kb.knowledge_base import KnowledgeBase
from ..kb.mentions import MentionPassage
from ..kb.readers import ReadOptions, open_source
from ..kb.readers.build_from_sources import source_name
from ..kb.readers.tables import read_mapping
from ..kb.records.entity import Entity
from ..models.architectures import entity_fingerprint, entity_vectors, fingerprint
from ..pipeline.pipelines import read_by_upstream
from ..text.entity_texts import entity_rows
from ..text.mention_inputs import DocumentContext, MentionInContext

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker


class KBEncoder:
    """The retriever of a linker as an ``Encoder`` of the entities and mentions of a KB.

    Args:
        linker: The linker. PelError if it has no weights.
        nlp: Its pipeline, needed to encode mentions if the linker listens to another component.
    """

    def __init__(self, linker: ProxyLinker, nlp: Language | None = None) -> None:
        self.linker = linker
        self.retriever = linker.retriever
        self.index_unit = linker.cfg["index_unit"]
        self.dim = linker.retriever.get_dim("nO")
        self._nlp = nlp

    @cached_property
    def fingerprint(self) -> str:
        """Return the fingerprint of the entity encoder."""
        return entity_fingerprint(self.retriever)

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors, float32 [n, dim], and the position of the entity of each, int64 [n]."""
        return entity_rows(entities, self.index_unit, partial(entity_vectors, self.retriever))

    @cached_property
    def mention_fingerprint(self) -> str:
        """Return the fingerprint of everything that determines the vectors of mentions."""
        return fingerprint(self.retriever)

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        """Return the vectors of the mentions of passages, float32 [n, dim], in their order."""
        mentions = [
            MentionInContext(passage.text, mention.start, mention.stop, document)
            for passage, document in zip(passages, self._read([p.text for p in passages]))
            for mention in passage.mentions
        ]
        return self.retriever.predict(mentions)

    def _read(self, texts: Sequence[str]) -> list[DocumentContext]:
        """Return the contexts of texts, with the token states that the linker listens to."""
        from ..pipeline.doc_mentions import read_documents

        if self.linker.model.maybe_get_ref("tok2vec") is None:
            return [DocumentContext() for _ in texts]
        if self._nlp is None:
            raise PelError(
                "the linker shares the encoder of another component", "give its pipeline"
            )
        docs = map(self._nlp.make_doc, texts)
        read = list(read_by_upstream(self._nlp, self.linker.name, docs))
        return read_documents(self.linker.model, read)[0]


def change_from_source(
    change: str,
    folder: Path,
    source: Path,
    *,
    linker: ProxyLinker | None = None,
    format: str | None = None,
    options: ReadOptions = ReadOptions(),
    mapping: Path | None = None,
    progress: Callable[[Iterable[Entity]], Iterable[Entity]] = iter,
) -> ChangeCounts:
    """Add, update, or merge the entities of a source.

    After an error or an interruption, the KB is unchanged.

    Args:
        change: "add" rejects ids that the KB has. "update" rejects ids that it lacks. "merge" merges known
            entities with those of the source, and adds others.
        folder: The folder of the KB.
        source: The file or folder of the source.
        linker: A linker with the encoder of the KB's vectors, needed if the KB has any.
        format: The format of the source; None infers it.
        options: Options for some formats.
        mapping: An SSSOM table from the source's ids to those of the KB.
        progress: Wraps the entities that are read, like ``tqdm``.

    Raises:
        PelError: There is no KB, the source is missing or malformed, an id is rejected, the linker is
            missing or has another encoder, or another process is writing to the KB.
    """
    opened = open_source(source, format=format, options=options)
    return change_entities(
        folder,
        change,
        progress(opened.entities),
        None if linker is None else KBEncoder(linker),
        sources=[source_name(source, opened.version), *([str(mapping)] if mapping else ())],
        mapping=read_mapping([mapping]) if mapping else {},
        types=opened.types,
    )


def add_synonyms(
    folder: Path, synonyms: Iterable[tuple[str, str]], linker: ProxyLinker | None = None
) -> ChangeCounts:
    """Add names to entities, in pairs of id and name. Errors are those of ``change_from_source``."""
    new: dict[str, list[str]] = {}
    with KnowledgeBase.open(folder) as kb:
        for id, name in synonyms:
            if id not in kb:
                remedy = f"look it up: python -m spacy pel kb info {folder} NAME"
                raise PelError(f"{id!r} is not in {folder}", remedy)
            new.setdefault(kb[id].concept_id, []).append(name)
        entities = [kb[id]._replace(aliases=(*kb[id].aliases, *names)) for id, names in new.items()]
    encoder = None if linker is None else KBEncoder(linker)
    return change_entities(folder, "update", entities, encoder)
