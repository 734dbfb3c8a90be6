"""A knowledge base learns annotated mentions: rows of its index, beside the rows of names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import spacy
from spacy.language import Language
from spacy.training import Example

from ..corpora.document_corpus import open_corpus
from ..errors import PelError
from ..jobs.kb_rows import LinkerMentions
from ..kb.knowledge_base import KnowledgeBase
from ..kb.mention_changes import learn_mentions, set_mention_weight
from ..kb.mentions import MentionPassage, MentionWeight, PassageMention
from ..pipeline.pipelines import linker_of
from ..reading.mention import MentionInContext
from ..spans import gold_ids, mention_spans
from .mention_weight import fitted_weight, queries_of_passages, queries_of_source

# The most mentions of an entity that are learnt of a source.
PER_ENTITY = 64
_SEED = 0


class LearntMentions(NamedTuple):
    """What a KB learnt.

    Attributes:
        mentions: The number of mentions that are now rows of the KB.
        entities: The number of their entities.
        seen: The number of mentions of the corpora whose entity is in the KB.
        weight: How much mentions count now; None if the KB has no vectors.
    """

    mentions: int
    entities: int
    seen: int
    weight: MentionWeight | None


def learn_mentions_of(
    folder: Path,
    corpora: Sequence[str | Path],
    *,
    nlp: Language | None = None,
    component: str = "proxy_linker",
    spans_key: str | None = None,
    per_entity: int = PER_ENTITY,
    limit: int = 0,
    fit: str | Path | None = None,
    progress: Callable[[], object] | None = None,
) -> LearntMentions:
    """Make the gold mentions of corpora rows of a KB.

    Each corpus is a source, named for its file and the folder of that. A source that the KB has
    learnt before is learnt anew. Afterwards it is fitted how much mentions count.

    Args:
        folder: The folder of the KB.
        corpora: Names of corpora, as ``open_corpus`` takes them.
        nlp: The pipeline whose linker made the vectors of the KB. None if the KB has none.
        component: The name of the linker in the pipeline.
        spans_key: The group of spans in which mentions are read. Give any word if mentions overlap.
        per_entity: The most mentions of an entity that are learnt of a corpus, drawn at random; 0
            for all.
        limit: The number of documents that are learnt of each file of a corpus; 0 for all.
        fit: A corpus of other documents that it is fitted to how much mentions count. None: to all
            mentions that the KB has learnt, each searched among the mentions of other documents. That
            counts them too little if the KB has the names of these mentions from the same documents.
        progress: Called after each document that is read.

    Returns:
        What it learnt.

    Raises:
        PelError: There is no KB, no mention has an entity in it, a corpus is missing or faulty, or
            the KB has vectors and no fitting pipeline was given.
    """
    linker = linker_of(nlp, component) if nlp else None
    encoder = LinkerMentions(linker, nlp) if linker else None
    resolve = linker.resolve_abbreviations if linker else True
    tokenizing = nlp or spacy.blank("en")
    sources = {source_of(name): name for name in corpora}
    if len(sources) < len(corpora):
        raise PelError("two corpora have the same name", "learn one after the other")

    def read(name: str | Path, limit: int = 0) -> list[MentionPassage]:
        corpus = open_corpus(name, limit=limit, spans_key=spans_key)
        examples = _counted(corpus(tokenizing), progress)
        with KnowledgeBase.open(folder) as kb:
            return list(gold_passages(examples, kb, spans_key, resolve))

    seen, learnt, entities = 0, 0, set()
    for source, name in sources.items():
        passages = read(name, limit)
        kept = drawn(passages, per_entity)
        learnt += learn_mentions(folder, source, kept, encoder)
        seen += sum(len(passage.mentions) for passage in passages)
        entities |= {mention.id for passage in kept for mention in passage.mentions}
    weight = None
    if encoder:
        with KnowledgeBase.open(folder) as kb:
            if fit:
                queries = [queries_of_passages(kb, encoder, read(fit))]
            else:
                queries = [queries_of_source(kb, source) for source in kb.mentions.sources]
            weight = fitted_weight(kb, queries)
    if weight:
        set_mention_weight(folder, weight)
    return LearntMentions(learnt, len(entities), seen, weight)


def source_of(corpus: str | Path) -> str:
    """The name of a corpus as a source: that of its file, and of the folder that the file is in."""
    return "/".join(Path(corpus).parts[-2:])


def gold_passages(
    examples: Iterable[Example], kb: KnowledgeBase, spans_key: str | None, resolve: bool
) -> Iterator[MentionPassage]:
    """The texts of examples with those mentions that have just one entity in the KB.

    A document is one passage. If some of its mentions are read in another text, because acronyms
    are replaced, it is two.

    Args:
        examples: The examples.
        kb: The knowledge base.
        spans_key: The group of ``doc.spans`` that has the mentions; None if they are in ``doc.ents``.
        resolve: Whether acronyms are read as their long forms.
    """
    from ..pipeline.doc_mentions import mentions_in_context  # here: torch takes seconds

    for example in examples:
        doc = example.reference
        spans = mention_spans(doc, spans_key)
        texts: dict[str, list[PassageMention]] = defaultdict(list)
        for span, context in zip(spans, mentions_in_context(doc, spans, resolve)):
            if (id := _only_id(kb, gold_ids(span))) and context.surface.strip():
                texts[context.text].append(_placed(context, id))
        for text, mentions in texts.items():
            yield MentionPassage(str(doc.user_data.get("id", "")), text, tuple(mentions))


def drawn(passages: Sequence[MentionPassage], per_entity: int) -> list[MentionPassage]:
    """The passages with at most so many mentions of each entity, drawn at random; 0 keeps all.

    Each mention of an entity is as likely as the others. So what a word mostly means stays what it
    mostly means.
    """
    if not per_entity:
        return list(passages)
    places = [(i, mention) for i, passage in enumerate(passages) for mention in passage.mentions]
    counts: dict[str, int] = defaultdict(int)
    kept: dict[int, set[PassageMention]] = defaultdict(set)
    for place in np.random.default_rng(_SEED).permutation(len(places)).tolist():
        i, mention = places[place]
        if counts[mention.id] < per_entity:
            counts[mention.id] += 1
            kept[i].add(mention)
    return [
        passage._replace(mentions=tuple(m for m in passage.mentions if m in kept[i]))
        for i, passage in enumerate(passages)
    ]


def _placed(context: MentionInContext, id: str) -> PassageMention:
    return PassageMention(context.start, context.end, id)


def _only_id(kb: KnowledgeBase, ids: Sequence[str]) -> str | None:
    """The concept id of the one entity that has these ids; None if there is none, or several."""
    numbers = {number for number in map(kb.number, ids) if number is not None}
    return kb.labels(list(numbers))[0][0] if len(numbers) == 1 else None


def _counted(
    examples: Iterable[Example], progress: Callable[[], object] | None
) -> Iterator[Example]:
    for example in examples:
        if progress:
            progress()
        yield example
