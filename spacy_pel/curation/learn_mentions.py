"""A knowledge base learns annotated mentions: rows of its index, beside the rows of names.

How much they count is fitted to mentions whose entities are known: of other documents, or the learnt
ones, each searched among those of all other documents. A conditional logistic regression says how
names and mentions together tell its entity (``metrics.calibration``).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import spacy
from spacy.language import Language
from spacy.training import Example

from ..corpora.document_corpus import open_corpus
from ..errors import PelError
from ..kb.change import learn_mentions, set_mention_weight
from ..kb.knowledge_base import KnowledgeBase
from ..kb.mentions import (
    NEAREST,
    MentionPassage,
    MentionWeight,
    NearMentions,
    PassageMention,
    scored_pairs,
)
from ..kb.vectors.writing import Encoder
from ..metrics.calibration import feature_weights
from ..pipeline.pipelines import linker_of
from ..spans import gold_ids, mention_spans
from .kb_encoder import LinkerRows

# The most mentions of an entity that are learnt of a source.
PER_ENTITY = 64
_FITTED = 1500  # mentions of a source that it is fitted to how much they count
_NAMES = 64  # entities found by their names
_OWN = 256  # mentions of its own document that may be among those nearest to a mention
_SEED = 0


class LearntMentions(NamedTuple):
    """What a KB learnt."""

    mentions: int  # mentions that are now rows of the KB
    entities: int  # their entities
    seen: int  # mentions of the corpora whose entity is in the KB
    weight: MentionWeight | None  # how much mentions count now; None if the KB has no vectors


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
    progress: Callable[[], object] = lambda: None,
) -> LearntMentions:
    """Make the gold mentions of corpora rows of a KB.

    Each corpus is a source, named for its file and the folder of that. A source that the KB has
    learnt before is learnt anew. Afterwards it is fitted how much mentions count.

    Arguments that are not named here, and errors, are those of ``learn_names``.

    Args:
        per_entity: The most mentions of an entity that are learnt of a corpus, drawn at random; 0
            for all.
        limit: The number of documents that are learnt of each file of a corpus; 0 for all.
        fit: A corpus of other documents that it is fitted to how much mentions count. None: to all
            mentions that the KB has learnt, each searched among the mentions of other documents. That
            counts them too little if the KB has the names of these mentions from the same documents.
    """
    linker = linker_of(nlp, component) if nlp else None
    encoder = LinkerRows(linker, nlp) if linker else None
    resolve = linker.search.resolve_abbreviations if linker else True
    sources = {"/".join(Path(name).parts[-2:]): name for name in corpora}
    if len(sources) < len(corpora):
        raise PelError("two corpora have the same name", "learn one after the other")

    def read(name: str | Path, limit: int = 0) -> list[MentionPassage]:
        examples = open_corpus(name, limit=limit, spans_key=spans_key)(nlp or spacy.blank("en"))
        with KnowledgeBase.open(folder) as kb:
            passages = []
            for example in examples:
                progress()
                passages += gold_passages(example, kb, spans_key, resolve)
        return passages

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
            known = queries_of_passages(kb, encoder, read(fit)) if fit else queries_of_learnt(kb)
            weight = fitted_weight(kb, known)
    if weight:
        set_mention_weight(folder, weight)
    return LearntMentions(learnt, len(entities), seen, weight)


def gold_passages(
    example: Example, kb: KnowledgeBase, spans_key: str | None, resolve: bool
) -> Iterator[MentionPassage]:
    """The text of an example with those mentions that have just one entity in the KB.

    If some mentions are read in another text, because acronyms are replaced (``resolve``), it is two.
    """
    from ..pipeline.doc_mentions import mentions_in_context  # here: torch takes seconds

    doc = example.reference
    spans = mention_spans(doc, spans_key)
    texts: dict[str, list[PassageMention]] = defaultdict(list)
    contexts = mentions_in_context(doc, spans, None, resolve, kb.acronyms)
    for span, context in zip(spans, contexts):
        numbers = {number for number in map(kb.number, gold_ids(span)) if number is not None}
        if len(numbers) == 1 and context.surface.strip():
            ((id, _),) = kb.labels(list(numbers))
            texts[context.text].append(PassageMention(context.start, context.end, id))
    for text, mentions in texts.items():
        yield MentionPassage(str(doc.user_data.get("id", "")), text, tuple(mentions))


def drawn(passages: Sequence[MentionPassage], per_entity: int) -> list[MentionPassage]:
    """The passages with at most so many mentions of each entity, drawn at random; 0 keeps all."""
    if not per_entity:
        return list(passages)
    places = [(i, mention) for i, passage in enumerate(passages) for mention in passage.mentions]
    counts: Counter[str] = Counter()
    kept: set[tuple[int, PassageMention]] = set()
    for place in np.random.default_rng(_SEED).permutation(len(places)).tolist():
        id = places[place][1].id
        counts[id] += 1
        if counts[id] <= per_entity:
            kept.add(places[place])
    return [
        passage._replace(mentions=tuple(m for m in passage.mentions if (i, m) in kept))
        for i, passage in enumerate(passages)
    ]


class Queries(NamedTuple):
    """Mentions whose entities are known: float32 [n, dim], the numbers of these, and what is near."""

    vectors: np.ndarray
    golds: np.ndarray
    near: NearMentions


def queries_of_passages(
    kb: KnowledgeBase, encoder: Encoder, passages: Sequence[MentionPassage]
) -> Queries:
    """The mentions of documents that the KB has not learnt."""
    vectors = encoder.mention_vectors(passages)
    golds = [kb.number(mention.id) for passage in passages for mention in passage.mentions]
    return Queries(vectors, np.array(golds), kb.mentions.nearest(vectors, NEAREST))


def queries_of_learnt(kb: KnowledgeBase) -> Queries:
    """Some of the mentions that were learnt from each source, each without those of its document."""
    mentions = kb.mentions
    owned = (np.flatnonzero(mentions.rows.sources == source) for source in mentions.sources)
    orders = [(own, np.random.default_rng(_SEED).permutation(len(own))) for own in owned]
    rows = np.concatenate([own[order[:_FITTED]] for own, order in orders])
    vectors = mentions.index.matrix.take(rows)
    near = mentions.nearest(vectors, NEAREST + _OWN)
    theirs = np.where(near.rows >= 0, mentions.rows.documents[near.rows], -1)
    gone = theirs == mentions.rows.documents[rows][:, None]
    order = np.argsort(gone, axis=1, kind="stable")[:, :NEAREST]
    columns = near.scores, np.where(gone, -1, near.numbers), near.rows
    others = NearMentions(*(np.take_along_axis(column, order, axis=1) for column in columns))
    return Queries(vectors, mentions.rows.numbers[rows], others)


def fitted_weight(kb: KnowledgeBase, queries: Queries) -> MentionWeight | None:
    """How much mentions count, fitted to these; None if they do not tell, because there are too few."""
    names = kb.search(queries.vectors, _NAMES, with_mentions=False)
    lines, numbers, *scores = scored_pairs(kb.vectors, queries.vectors, names, queries.near)
    # Tables [n, k] of the candidates of each query: their scores by name, how close their mentions are,
    # and whether they are right; -inf for no candidate, and for one without mentions near.
    ranks = np.arange(len(lines)) - np.searchsorted(lines, lines)
    shape = (len(queries.golds), ranks.max(initial=0) + 1)
    by_name, closeness = np.full((2, *shape), -np.inf)
    right = np.zeros(shape, bool)
    by_name[lines, ranks], closeness[lines, ranks] = scores
    right[lines, ranks] = numbers == queries.golds[lines]
    near = np.isfinite(closeness)
    weights = feature_weights(by_name, [near, np.where(near, closeness, 0.0)], right)
    if weights is None or weights[1] <= 0:
        return None
    bonus, weight = weights
    return MentionWeight(float(weight), float(-bonus / weight))
