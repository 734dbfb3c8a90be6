"""The rows of a KB that a linker encodes, and changes of a KB that need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

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
from ..pipeline.pipelines import read_by_upstream
from ..text.entity_texts import entity_rows
from ..text.mention_inputs import DocumentContext, MentionInContext

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker


class LinkerRows:
    """What the retriever of a linker encodes for a KB: rows of entities, and mentions.

    It is an ``Encoder`` of ``kb``. PelError if the linker has no weights.
    """

    def __init__(self, linker: ProxyLinker, nlp: Language | None = None) -> None:
        """Take a linker, and its pipeline, which mentions need if it listens to a component."""
        self.linker = linker
        self.retriever = linker.retriever
        self.index_unit = linker.cfg["index_unit"]
        self.dim = linker.retriever.width
        self._nlp = nlp

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the entity encoder, as the KB has it."""
        return self.retriever.entity_fingerprint()

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """Vectors, float32 [n, dim], and for each the place of its entity in ``entities``, int64 [n]."""
        return entity_rows(entities, self.index_unit, self.retriever.entity_vectors)

    @cached_property
    def mention_fingerprint(self) -> str:
        """The fingerprint of all that decides the vectors of mentions."""
        return self.retriever.fingerprint()

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        """The vectors of the mentions of passages, float32 [n, dim], in their order."""
        mentions = [
            MentionInContext(passage.text, mention.start, mention.stop, document)
            for passage, document in zip(passages, self._read([p.text for p in passages]))
            for mention in passage.mentions
        ]
        return self.retriever.mention_vectors(mentions)

    def _read(self, texts: Sequence[str]) -> list[DocumentContext]:
        """The contexts of texts, with the states that the linker listens to."""
        from ..pipeline.doc_mentions import read_documents

        if self.linker.model.maybe_get_ref("tok2vec") is None:
            return [DocumentContext() for _ in texts]
        if self._nlp is None:
            raise PelError("the linker shares what another component reads", "give its pipeline")
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
    columns: Mapping[str, str] = MappingProxyType({}),
    mapping: Path | None = None,
    progress: Callable[[Iterable[Entity]], Iterable[Entity]] = iter,
) -> ChangeCounts:
    """Add the entities of a source to a KB, or update or merge those that it has.

    "add": the KB must not have the ids. "update": it must have them. "merge": entities that it has are
    joined with the new ones, others are added; ``columns`` has the field of each column of a table;
    ``mapping`` is an SSSOM table from the source's ids to the
    KB's. The linker is the one whose encoder made the vectors of the KB, if it has any. ``progress``
    wraps the entities that are read, as ``tqdm``. After an error or an interruption, the KB is as it was.

    PelError if there is no KB, the source is missing or faulty, ids are refused, the KB has vectors and
    no fitting linker was given, or another process writes to the KB.
    """
    opened = open_source(source, format=format, options=ReadOptions(columns=columns))
    options: dict[str, Any] = {"sources": [source_name(source, opened.version)]}
    if mapping:
        options["mapping"] = read_mapping([mapping])
        options["sources"].append(str(mapping))
    encoder = None if linker is None else LinkerRows(linker)
    options["types"] = opened.types
    return change_entities(folder, change, progress(opened.entities), encoder, **options)


def add_synonyms(
    folder: Path, synonyms: Iterable[tuple[str, str]], linker: ProxyLinker | None = None
) -> ChangeCounts:
    """Add names to entities of a KB: pairs of an id and a name. Errors as of ``change_from_source``."""
    new: dict[str, list[str]] = {}
    with KnowledgeBase.open(folder) as kb:
        for id, name in synonyms:
            if id not in kb:
                remedy = f"find the right one: python -m spacy pel kb info {folder} NAME"
                raise PelError(f"{id!r} is not in {folder}", remedy)
            new.setdefault(kb[id].concept_id, []).append(name)
        entities = [kb[id]._replace(aliases=(*kb[id].aliases, *names)) for id, names in new.items()]
    encoder = None if linker is None else LinkerRows(linker)
    return change_entities(folder, "update", entities, encoder)
