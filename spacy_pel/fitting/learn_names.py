"""A knowledge base learns names: those by which annotated mentions call its entities, and acronyms.

Acronyms come from plain text: "multiple sclerosis (MS)" says what MS may mean.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import spacy
from spacy.language import Language

from ..corpora.document_corpus import open_corpus
from ..documents.open_documents import open_documents
from ..errors import PelError
from ..jobs.kb_rows import LinkerRows
from ..kb.change import ChangeCounts, update_entities
from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.entity import Entity
from ..kb.records.names import normalised
from ..pipeline.pipelines import linker_of
from ..reading.acronyms import defined_acronyms
from ..reading.mention import GoldMention


class LearntNames(NamedTuple):
    """What a KB learnt: numbers."""

    names: int  # new names
    mentions: int  # mentions whose entity is in the KB
    changes: ChangeCounts
    texts: int = 0  # texts that were read for acronyms
    ambiguous: int = 0  # distinct acronyms that several entities now have


def learn_names(
    folder: Path,
    corpora: Sequence[str | Path],
    *,
    nlp: Language | None = None,
    component: str = "proxy_linker",
    spans_key: str | None = None,
    progress: Callable[[], object] = lambda: None,
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
                progress()
        mentions = trainable_mentions(examples, kb, spans_key)
        if not mentions:
            raise PelError(
                f"no mention of {', '.join(map(str, corpora))} has an entity in {folder}",
                "check that the corpus and the KB use the same identifiers",
            )
        # Mentions as they are written, and with acronyms read as a linker reads them.
        resolved = trainable_mentions(examples, kb, spans_key, resolve_abbreviations=True)
        new = new_names(mentions + resolved, kb)
        renamed = _renamed(kb, new)
    changes = update_entities(
        folder, renamed, encoder, sources=[Path(name).name for name in corpora]
    )
    return LearntNames(sum(map(len, new.values())), len(mentions), changes)


def new_names(mentions: Iterable[GoldMention], kb: KnowledgeBase) -> dict[int, list[str]]:
    """The names by which mentions call entities and which these lack, by the entities' numbers.

    A name goes to the entity that most of the mentions mean by it; in a tie, to the entity that
    comes first in the KB. It is spelt as it was where it stood first. Two names are the same if
    they differ only in case, blanks and punctuation. A mention with several right entities is
    passed over.
    """
    meant: dict[str, Counter] = defaultdict(Counter)
    spelled: dict[str, str] = {}
    for mention in mentions:
        key = normalised(mention.surface)
        if len(mention.golds) == 1 and key:
            meant[key][mention.golds[0]] += 1
            spelled.setdefault(key, mention.surface)
    new: dict[int, list[str]] = defaultdict(list)
    for key, counts in meant.items():
        number = min(counts, key=lambda number: (-counts[number], number))
        if key not in map(normalised, kb.entities([number])[0].names):
            new[number].append(spelled[key])
    return new


def learn_acronyms(
    folder: Path,
    texts: Sequence[str],
    *,
    least: int = 1,
    nlp: Language | None = None,
    component: str = "proxy_linker",
    progress: Callable[[], object] = lambda: None,
) -> LearntNames:
    """Give entities the acronyms by which texts call them.

    A text that defines an acronym by a long form which one entity alone has as a name gives this
    entity the acronym (``reading.acronyms``, Schwartz and Hearst 2003). Other entities may have the
    same acronym: in a text that does not define it the context decides. After an error the KB is as
    it was.

    Args:
        texts: Names of documents, as ``open_documents`` takes them.
        least: The least number of texts that define an acronym so.

    The others are those of ``learn_names``.

    Raises:
        PelError: There is no KB, a text is missing, no text defines an acronym of the KB, or the KB
            has vectors and no fitting pipeline was given.
    """
    encoder = LinkerRows(linker_of(nlp, component)) if nlp else None
    counts: Counter[tuple[str, int]] = Counter()  # of the texts that define one for an entity
    n_texts = 0
    new: dict[int, list[str]] = defaultdict(list)
    with KnowledgeBase.open(folder) as kb:
        for name in texts:
            for raw in open_documents(name):
                for acronym, long_form in defined_acronyms(raw.document(None).text).items():
                    owners = kb.numbers_named(long_form)
                    if len(owners) == 1:
                        counts[acronym, int(owners[0])] += 1
                n_texts += 1
                progress()
        if not counts:
            raise PelError(
                f"no acronym in {', '.join(texts)} has a long form that is a name in {folder}",
                "give more text, or text of the field of the knowledge base",
            )
        for (acronym, number), count in sorted(counts.items()):
            if count >= least and number not in kb.numbers_named(acronym):
                new[number].append(acronym)
        renamed = _renamed(kb, new)
    sources = [f"acronyms of {Path(name).name}" for name in texts]
    changes = update_entities(folder, renamed, encoder, sources=sources)
    with KnowledgeBase.open(folder) as kb:
        learnt = {acronym for acronyms in new.values() for acronym in acronyms}
        ambiguous = sum(len(kb.numbers_named(acronym)) > 1 for acronym in learnt)
    return LearntNames(sum(map(len, new.values())), 0, changes, n_texts, ambiguous)


def _renamed(kb: KnowledgeBase, new: dict[int, list[str]]) -> list[Entity]:
    """The records of entities with new names as aliases, in the order of the KB."""
    numbers = sorted(new)
    return [
        entity._replace(aliases=(*entity.aliases, *new[number]))
        for number, entity in zip(numbers, kb.entities(numbers))
    ]
