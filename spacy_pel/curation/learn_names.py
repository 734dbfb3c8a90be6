"""A knowledge base learns names: those by which annotated mentions call its entities, and acronyms.

Acronyms come from plain text: "multiple sclerosis (MS)" says what MS may mean.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import spacy
from spacy.language import Language

from ..corpora.document import Document, mention_at
from ..corpora.document_corpus import open_corpus
from ..corpora.formats.base import encoded
from ..corpora.formats.pubtator import pubtator_text
from ..corpora.open_documents import open_documents
from ..errors import PelError
from ..io.whole_files import pointed_to, whole_file
from ..kb.change import ChangeCounts, change_entities
from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.entity import Entity
from ..kb.records.names import normalised
from ..pipeline.pipelines import linker_of
from ..text.abbreviations import defined_abbreviations, hidden_definitions
from ..text.mention_inputs import GoldMention
from .kb_encoder import LinkerRows


class LearntNames(NamedTuple):
    """What a KB learnt: numbers."""

    names: int  # new names
    mentions: int  # mentions whose entity is in the KB
    changes: ChangeCounts
    texts: int = 0  # texts that were read for acronyms
    ambiguous: int = 0  # distinct acronyms that several entities now have
    lessons: int = 0  # texts that were written as lessons


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
            problem = f"no mention of {', '.join(map(str, corpora))} has an entity in {folder}"
            raise PelError(problem, "check that the corpus and the KB use the same identifiers")
        # Mentions as they are written, and with acronyms read as a linker reads them.
        resolved = trainable_mentions(examples, kb, spans_key, resolve_abbreviations=True)
        new = new_names(mentions + resolved, kb)
        renamed = _renamed(kb, new)
    sources = [Path(name).name for name in corpora]
    changes = change_entities(folder, "update", renamed, encoder, sources=sources)
    return LearntNames(sum(map(len, new.values())), len(mentions), changes)


def new_names(mentions: Iterable[GoldMention], kb: KnowledgeBase) -> dict[int, list[str]]:
    """The names by which mentions call entities and which these lack, by the entities' numbers.

    A name goes to the entity that most of the mentions mean by it; in a tie, to the entity that
    comes first in the KB. It is spelt as it was where it stood first. Two names are the same if
    they differ only in case, blanks and punctuation. A name by which some mention means several
    entities ("breast and ovarian cancer") is passed over.
    """
    meant: dict[str, Counter] = defaultdict(Counter)
    spelled: dict[str, str] = {}
    for mention in mentions:
        if key := normalised(mention.surface):
            meant[key][tuple(mention.golds)] += 1
            spelled.setdefault(key, mention.surface)
    new: dict[int, list[str]] = defaultdict(list)
    for key, counts in meant.items():
        if any(len(golds) > 1 for golds in counts):
            continue
        [number] = min(counts, key=lambda golds: (-counts[golds], golds))
        if key not in map(normalised, kb.entities([number])[0].names):
            new[number].append(spelled[key])
    return new


def learn_acronyms(
    folder: Path,
    texts: Sequence[str],
    *,
    least: int = 1,
    lessons: Path | None = None,
    nlp: Language | None = None,
    component: str = "proxy_linker",
    progress: Callable[[], object] = lambda: None,
) -> LearntNames:
    """Give entities the acronyms by which texts call them.

    A text that defines an acronym by a long form which one entity alone has as a name gives this
    entity the acronym (``text.abbreviations``, Schwartz and Hearst 2003), if ``least`` texts do so.
    Other entities may have the same acronym: in a text that does not define it the context decides.
    ``texts`` are names of documents, as ``open_documents`` takes them. ``lessons`` is a
    PubTator file to write, for each text that defines one, as a ``lesson``. For the rest see
    ``learn_names``. PelError also if no text defines an acronym of the KB.
    """
    encoder = LinkerRows(linker_of(nlp, component)) if nlp else None
    counts: Counter[tuple[str, str, int]] = Counter()  # of the texts of a source that define one so
    n_texts = n_lessons = 0
    new: dict[int, list[str]] = defaultdict(list)
    with KnowledgeBase.open(folder) as kb:
        with whole_file(pointed_to(lessons), "xb") if lessons else nullcontext() as file:
            for name in texts:
                source = f"acronyms of {Path(name).name}"
                for raw in open_documents(name):
                    text = raw.document(left_out=[]).text
                    meant = meant_acronyms(text, kb)
                    counts.update((source, short, number) for short, (_, number) in meant.items())
                    n_texts += 1
                    if file and (written := lesson(str(n_texts), text, meant, kb)):
                        file.write(encoded(pubtator_text(written)))
                        n_lessons += 1
                    progress()
            if not counts:
                names = ", ".join(texts)
                problem = f"no acronym in {names} has a long form that is a name in {folder}"
                raise PelError(problem, "give more text, or text of the knowledge base's field")
        totals = Counter[tuple[str, int]]()
        defined: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
        for (source, acronym, number), count in sorted(counts.items()):
            totals[acronym, number] += count
            defined[source].append((acronym, kb.labels([number])[0][0], count))
        for (acronym, number), count in sorted(totals.items()):
            if count >= least and number not in kb.numbers_named(acronym):
                new[number].append(acronym)
        renamed = _renamed(kb, new)
    changes = change_entities(
        folder, "update", renamed, encoder, sources=list(defined), acronyms=defined
    )
    with KnowledgeBase.open(folder) as kb:
        learnt = {acronym for acronyms in new.values() for acronym in acronyms}
        ambiguous = sum(len(kb.numbers_named(acronym)) > 1 for acronym in learnt)
    return LearntNames(sum(map(len, new.values())), 0, changes, n_texts, ambiguous, n_lessons)


def lesson(
    id: str, text: str, meant: Mapping[str, tuple[str, int]], kb: KnowledgeBase
) -> Document | None:
    """A text in which acronyms are not defined, but annotated; None if there are none.

    Each of their mentions has the label "Acronym" and the id of the entity that the text means by it
    (``meant_acronyms``).
    """
    text, places = hidden_definitions(text, {short: long for short, (long, _) in meant.items()})
    mentions = []
    for start, end in places:
        [(concept_id, _)] = kb.labels([meant[text[start:end]][1]])
        mentions.append(mention_at(text, start, end, "Acronym", (concept_id,)))
    return Document(text, id, tuple(mentions)) if mentions else None


def meant_acronyms(text: str, kb: KnowledgeBase) -> dict[str, tuple[str, int]]:
    """From the acronyms that a text defines to long forms that one entity alone has, and its number."""
    owners = {
        short: (long, kb.numbers_named(long)) for short, long in defined_abbreviations(text).items()
    }
    return {s: (long, int(own[0])) for s, (long, own) in owners.items() if len(own) == 1}


def _renamed(kb: KnowledgeBase, new: dict[int, list[str]]) -> list[Entity]:
    """The records of entities with new names as aliases, in the order of the KB."""
    numbers = sorted(new)
    return [
        entity._replace(aliases=(*entity.aliases, *new[number]))
        for number, entity in zip(numbers, kb.entities(numbers))
    ]
