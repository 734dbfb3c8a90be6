"""A knowledge base learns the names by which annotated mentions call its entities."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import spacy
from spacy.language import Language

from ..corpora.document_corpus import open_corpus
from ..errors import PelError
from ..jobs.kb_rows import LinkerRows
from ..kb.change import ChangeCounts, update_entities
from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.entity import Entity
from ..kb.records.names import normalised
from ..pipeline.pipelines import linker_of
from ..reading.mention import GoldMention


class LearntNames(NamedTuple):
    """What a KB learnt.

    Attributes:
        names: The number of new names.
        mentions: The number of mentions whose entity is in the KB.
        changes: The numbers of entities that changed.
    """

    names: int
    mentions: int
    changes: ChangeCounts


def learn_names(
    folder: Path,
    corpora: Sequence[str | Path],
    *,
    nlp: Language | None = None,
    component: str = "proxy_linker",
    spans_key: str | None = None,
    progress: Callable[[], object] | None = None,
) -> LearntNames:
    """Give the entities of a KB the names by which the mentions of corpora call them.

    A name goes to the entity that most of the mentions mean by it. Where a document defines an
    acronym, its long form is learnt as well. After an error the KB is as it was.

    Args:
        folder: The folder of the KB.
        corpora: Names of corpora, as ``open_corpus`` takes them.
        nlp: The pipeline whose linker made the vectors of the KB. None if the KB has none.
        component: The name of the linker in the pipeline.
        spans_key: The group of spans in which mentions are read. Give any word if mentions overlap.
        progress: Called after each document that is read.

    Raises:
        PelError: There is no KB, no mention has an entity in it, a corpus is missing or faulty, or
            the KB has vectors and no fitting pipeline was given.
    """
    from ..pipeline.doc_mentions import trainable_mentions  # here: torch takes seconds

    encoder = LinkerRows(linker_of(nlp, component)) if nlp else None
    tokenizing = nlp or spacy.blank("en")
    with KnowledgeBase.open(folder) as kb:
        examples = []
        for name in corpora:
            for example in open_corpus(name, spans_key=spans_key)(tokenizing):
                examples.append(example)
                if progress:
                    progress()
        mentions = trainable_mentions(examples, kb, spans_key)
        if not mentions:
            raise PelError(
                f"no mention of {', '.join(map(str, corpora))} has an entity in {folder}",
                "check that the corpus and the KB use the same identifiers",
            )
        # Mentions as they are written, and with acronyms read as a linker reads them.
        resolved = trainable_mentions(examples, kb, spans_key, resolve_abbreviations=True)
        renamed = renamed_entities(mentions + resolved, kb)
        known = sum(len(kb[entity.concept_id].aliases) for entity in renamed)
    names = sum(len(entity.aliases) for entity in renamed) - known
    sources = [Path(name).name for name in corpora]
    changes = update_entities(folder, renamed, encoder, sources=sources)
    return LearntNames(names, len(mentions), changes)


def renamed_entities(mentions: Iterable[GoldMention], kb: KnowledgeBase) -> list[Entity]:
    """The records of the entities that mentions call by new names, with these names as aliases.

    A name goes to the entity that most of the mentions mean by it; in a tie, to the entity that
    comes first in the KB. It is spelt as it was where it stood first. Two names are the same if
    they differ only in case, blanks and punctuation. A mention with several right entities is
    passed over.

    Args:
        mentions: Gold mentions with the numbers of their entities.
        kb: The KB with the entities.
    """
    meant: dict[str, Counter] = defaultdict(Counter)
    spelled: dict[str, str] = {}
    for mention in mentions:
        key = normalised(mention.surface)
        if len(mention.golds) == 1 and key:
            meant[key][mention.golds[0]] += 1
            spelled.setdefault(key, mention.surface)
    keys_of: dict[int, list[str]] = defaultdict(list)
    for key, counts in meant.items():
        keys_of[min(counts, key=lambda number: (-counts[number], number))].append(key)
    numbers = sorted(keys_of)
    renamed = []
    for number, entity in zip(numbers, kb.entities(numbers)):
        known = set(map(normalised, entity.names))
        if new := [spelled[key] for key in keys_of[number] if key not in known]:
            renamed.append(entity._replace(aliases=(*entity.aliases, *new)))
    return renamed
