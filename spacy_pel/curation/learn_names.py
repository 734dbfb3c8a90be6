"""Add names to a KB: the words of annotated mentions, and abbreviations from plain text.

From "multiple sclerosis (MS)" in a text, the KB learns that MS may mean multiple sclerosis. A text that is
only a definition, such as "room air (RA)", also counts if no entity has the name.
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
from ..kb.knowledge_base import OTHER_SENSE, KnowledgeBase
from ..kb.records.entity import Entity
from ..kb.records.names import american, normalised
from ..pipeline.pipelines import linker_of
from ..text.abbreviations import defined_abbreviations, hidden_definitions, is_long_form
from ..text.mention_inputs import GoldMention
from .kb_encoder import KBEncoder


class LearntNames(NamedTuple):
    """The numbers of learnt names."""

    names: int
    mentions: int  # whose entity is in the KB
    changes: ChangeCounts
    texts: int = 0  # searched for abbreviations
    other_senses: int = 0  # texts that define an abbreviation as what is no entity
    ambiguous: int = 0  # learnt abbreviations that now belong to several entities
    weakly_labelled: int = 0  # documents written


def learn_names(
    folder: Path,
    corpora: Sequence[str | Path],
    *,
    nlp: Language | None = None,
    spans_key: str | None = None,
    progress: Callable[[], object] = lambda: None,
) -> LearntNames:
    """Add the words of gold mentions to a KB as names of their entities.

    ``new_names`` selects the names. If a document defines an abbreviation, its long form is also added.
    After an error, the KB is unchanged.

    Args:
        folder: The folder of the KB.
        corpora: Names of corpora, as for ``open_corpus``.
        nlp: The pipeline whose linker made the vectors of the KB. None if the KB has none.
        spans_key: The span group for the mentions. Overlapping mentions need one, with any name.
        progress: Called after each document.

    Raises:
        PelError: There is no KB, no mention has an entity in the KB, a corpus is missing or malformed, or the
            KB has vectors and the pipeline is missing or has another encoder.
    """
    from ..pipeline.doc_mentions import trainable_mentions  # here: torch takes seconds

    encoder = KBEncoder(linker_of(nlp)) if nlp else None
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
        # The words of the text, and the long forms of abbreviations, which a linker reads.
        resolved = trainable_mentions(examples, kb, spans_key, resolve_abbreviations=True)
        new = new_names(mentions + resolved, kb)
        entities = _with_aliases(kb, new)
    sources = [Path(name).name for name in corpora]
    changes = change_entities(folder, "update", entities, encoder, sources=sources)
    return LearntNames(sum(map(len, new.values())), len(mentions), changes)


def new_names(mentions: Iterable[GoldMention], kb: KnowledgeBase) -> dict[int, list[str]]:
    """Return the words of mentions that their entities lack as names, by entity number.

    Names that differ only in case, white space, and punctuation are one name, in its first spelling. A
    name is assigned to the entity that it means in most documents, then in most mentions; ties go to the
    first entity in the KB. Because corpora have errors, a name is ignored if

    - one of its mentions means several entities ("breast and ovarian cancer");
    - another entity has the name, and a mention with the name means that entity;
    - only one document uses it, and another entity has it, or it resembles no name of its entity: it
      shares no three characters with one, and abbreviates none.
    """
    counts_of_names: dict[str, Counter[tuple[int, ...]]] = defaultdict(Counter)
    documents: dict[tuple[str, tuple[int, ...]], set[str]] = defaultdict(set)
    spellings: dict[str, str] = {}
    for mention in mentions:
        if key := normalised(mention.surface):
            golds = tuple(mention.golds)
            counts_of_names[key][golds] += 1
            documents[key, golds].add(mention.written_in)
            spellings.setdefault(key, mention.surface)
    new: dict[int, list[str]] = defaultdict(list)
    for key, counts in counts_of_names.items():
        if any(len(golds) > 1 for golds in counts):
            continue
        golds = min(counts, key=lambda g: (-len(documents[key, g]), -counts[g], g))
        [number] = golds
        names = kb.entities([number])[0].names
        if key in map(normalised, names):
            continue
        others = {(other,) for other in kb.numbers_named(key).tolist()} - {golds}
        is_told_twice = len(documents[key, golds]) > 1
        is_told = is_told_twice or not others and _resembles(spellings[key], names)
        if is_told and others.isdisjoint(counts):
            new[number].append(spellings[key])
    return new


def _resembles(surface: str, names: Iterable[str]) -> bool:
    """Return whether words share a character trigram with one of the names, or abbreviate it."""
    trigrams = _trigrams(surface)
    return any(trigrams & _trigrams(n) or is_long_form(surface, n) for n in names)


def _trigrams(name: str) -> set[str]:
    text = f" {american(normalised(name))} "
    return {text[i : i + 3] for i in range(len(text) - 2)}


def learn_acronyms(
    folder: Path,
    texts: Sequence[str],
    *,
    weak_labels: Path | None = None,
    nlp: Language | None = None,
    progress: Callable[[], object] = lambda: None,
) -> LearntNames:
    """Add the abbreviations that texts define to a KB, as names of their entities.

    The long form of an abbreviation (``text.abbreviations``, Schwartz and Hearst 2003) must be the name of
    exactly one entity. If several entities have the same abbreviation, the context decides in texts that
    do not define it. A text that is only a definition also counts if no entity has the long form.

    The other arguments, and errors, are those of ``learn_names``.

    Args:
        folder: The folder of the KB.
        texts: Names of documents, as for ``open_documents``.
        weak_labels: A PubTator file to write, with a weakly labelled document (``weakly_labelled``) for each
            text that defines an abbreviation.

    Raises:
        PelError: No text defines an abbreviation of a name in the KB, or is only a definition.
    """
    encoder = KBEncoder(linker_of(nlp)) if nlp else None
    # Texts by source, short form and entity, or ``OTHER_SENSE``.
    counts: Counter[tuple[str, str, int]] = Counter()
    n_texts = n_labelled = 0
    new: dict[int, list[str]] = defaultdict(list)
    with KnowledgeBase.open(folder) as kb:
        with whole_file(pointed_to(weak_labels), "xb") if weak_labels else nullcontext() as file:
            for name in texts:
                source = f"acronyms of {Path(name).name}"
                for raw in open_documents(name):
                    text = raw.document(left_out=[]).text
                    senses = defined_senses(text, kb)
                    counts.update((source, short, sense.number) for short, sense in senses.items())
                    counts.update((source, short, OTHER_SENSE) for short in _other_senses(text, kb))
                    n_texts += 1
                    if file and (document := weakly_labelled(str(n_texts), text, senses, kb)):
                        file.write(encoded(pubtator_text(document)))
                        n_labelled += 1
                    progress()
            if not counts:
                names = ", ".join(texts)
                problem = f"no acronym in {names} has a long form that is a name in {folder}"
                raise PelError(
                    problem, "use more texts, or texts of the field of the knowledge base"
                )
        defined: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
        for (source, short, number), count in sorted(counts.items()):
            id = "" if number == OTHER_SENSE else kb.labels([number])[0][0]
            defined[source].append((short, id, count))
        for short, number in sorted({(short, number) for _, short, number in counts}):
            if number != OTHER_SENSE and number not in kb.numbers_named(short):
                new[number].append(short)
        n_others = sum(n for (_, _, number), n in counts.items() if number == OTHER_SENSE)
        entities = _with_aliases(kb, new)
    changes = change_entities(
        folder, "update", entities, encoder, sources=list(defined), acronyms=defined
    )
    with KnowledgeBase.open(folder) as kb:
        learnt = {short for names in new.values() for short in names}
        n_ambiguous = sum(len(kb.numbers_named(short)) > 1 for short in learnt)
    n_names = sum(map(len, new.values()))
    return LearntNames(n_names, 0, changes, n_texts, n_others, n_ambiguous, n_labelled)


class Sense(NamedTuple):
    """The long form of an abbreviation, and the number of the entity with this name."""

    long_form: str
    number: int


def defined_senses(text: str, kb: KnowledgeBase) -> dict[str, Sense]:
    """Return the senses of the abbreviations whose long forms in a text name exactly one entity."""
    senses = {}
    for short, long in defined_abbreviations(text).items():
        numbers = kb.numbers_named(long)
        if len(numbers) == 1:
            senses[short] = Sense(long, int(numbers[0]))
    return senses


def _other_senses(text: str, kb: KnowledgeBase) -> list[str]:
    """Return the abbreviation that is defined by a text that has nothing else, if no entity is its sense."""
    return [
        short
        for short, long in defined_abbreviations(text).items()
        if text.strip() == f"{long} ({short})" and not len(kb.numbers_named(long))
    ]


def weakly_labelled(
    id: str, text: str, senses: Mapping[str, Sense], kb: KnowledgeBase
) -> Document | None:
    """Return a text without its definitions, and with its abbreviations annotated, or None without any.

    The mentions have the label "Acronym" and the ids of the entities of ``senses``.
    """
    long_forms = {short: sense.long_form for short, sense in senses.items()}
    text, offsets = hidden_definitions(text, long_forms)
    mentions = []
    for start, end in offsets:
        [(concept_id, _)] = kb.labels([senses[text[start:end]].number])
        mentions.append(mention_at(text, start, end, "Acronym", (concept_id,)))
    return Document(text, id, tuple(mentions)) if mentions else None


def _with_aliases(kb: KnowledgeBase, new: dict[int, list[str]]) -> list[Entity]:
    """Return the entities with their new names as aliases, in the order of the KB."""
    numbers = sorted(new)
    return [
        entity._replace(aliases=(*entity.aliases, *new[number]))
        for number, entity in zip(numbers, kb.entities(numbers))
    ]
