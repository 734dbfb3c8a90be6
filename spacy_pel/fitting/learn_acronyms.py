"""A knowledge base learns acronyms from plain text: "multiple sclerosis (MS)" says what MS may mean."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from spacy.language import Language

from ..documents.open_documents import open_documents
from ..errors import PelError
from ..jobs.kb_rows import LinkerRows
from ..kb.change import ChangeCounts, update_entities
from ..kb.knowledge_base import KnowledgeBase
from ..pipeline.pipelines import linker_of
from ..reading.acronyms import defined_acronyms


class LearntAcronyms(NamedTuple):
    """What a KB learnt.

    Attributes:
        acronyms: The number of acronyms that entities got.
        ambiguous: The number of distinct acronyms that several entities now have.
        texts: The number of texts that were read.
        changes: The numbers of entities that changed.
    """

    acronyms: int
    ambiguous: int
    texts: int
    changes: ChangeCounts


def learn_acronyms(
    folder: Path,
    texts: Sequence[str],
    *,
    least: int = 1,
    nlp: Language | None = None,
    component: str = "proxy_linker",
    progress: Callable[[], object] | None = None,
) -> LearntAcronyms:
    """Give entities the acronyms by which texts call them.

    A text that defines an acronym by a long form which one entity alone has as a name gives this
    entity the acronym (``reading.acronyms``, Schwartz and Hearst 2003). Other entities may have the
    same acronym: in a text that does not define it the context decides. After an error the KB is as
    it was.

    Args:
        folder: The folder of the KB.
        texts: Names of documents, as ``open_documents`` takes them.
        least: The least number of texts that define an acronym so.
        nlp: The pipeline whose linker made the vectors of the KB. None if the KB has none.
        component: The name of the linker in the pipeline.
        progress: Called after each text.

    Raises:
        PelError: There is no KB, a text is missing, no text defines an acronym of the KB, or the KB
            has vectors and no fitting pipeline was given.
    """
    encoder = LinkerRows(linker_of(nlp, component)) if nlp else None
    with KnowledgeBase.open(folder) as kb:
        counts, n_texts = _counted(kb, texts, progress)
        new: dict[int, list[str]] = defaultdict(list)
        for (acronym, number), count in sorted(counts.items()):
            if count >= least and number not in kb.numbers_named(acronym):
                new[number].append(acronym)
        if not counts:
            raise PelError(
                f"no acronym in {', '.join(texts)} has a long form that is a name in {folder}",
                "give more text, or text of the field of the knowledge base",
            )
        entities = [
            entity._replace(aliases=(*entity.aliases, *new[number]))
            for number, entity in zip(sorted(new), kb.entities(sorted(new)))
        ]
    sources = [f"acronyms of {Path(name).name}" for name in texts]
    changes = update_entities(folder, entities, encoder, sources=sources)
    with KnowledgeBase.open(folder) as kb:
        learnt = {acronym for acronyms in new.values() for acronym in acronyms}
        ambiguous = sum(len(kb.numbers_named(acronym)) > 1 for acronym in learnt)
    return LearntAcronyms(sum(map(len, new.values())), ambiguous, n_texts, changes)


def _counted(
    kb: KnowledgeBase, texts: Iterable[str], progress: Callable[[], object] | None
) -> tuple[Counter[tuple[str, int]], int]:
    """How many texts define each acronym of each entity, and the number of texts."""
    counts: Counter[tuple[str, int]] = Counter()
    n_texts = 0
    for name in texts:
        for raw in open_documents(name):
            for acronym, long_form in defined_acronyms(raw.document(None).text).items():
                owners = kb.numbers_named(long_form)
                if len(owners) == 1:
                    counts[acronym, int(owners[0])] += 1
            n_texts += 1
            if progress:
                progress()
    return counts, n_texts
