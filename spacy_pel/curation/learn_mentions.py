"""Add annotated mentions to the index of a KB, in addition to names.

A conditional logistic regression (``metrics.probabilities``) fits their weight to mentions with known
entities: those of other documents, or the learnt ones, each searched among the mentions of all other
documents.
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
from ..metrics.probabilities import feature_weights
from ..pipeline.pipelines import linker_of
from ..spans import gold_ids, mention_spans
from .kb_encoder import KBEncoder

PER_ENTITY = 64  # the maximum number of mentions of an entity from one source
_N_FITTED = 1500  # the maximum number of mentions of a source in the fit of the weight
_N_CANDIDATES = 64  # entities to search by their names
_N_SAME_DOCUMENT = (
    256  # additional neighbours to search, because some may be of the query's document
)
_SEED = 0


class LearntMentions(NamedTuple):
    """The numbers of learnt mentions."""

    mentions: int  # that are now rows of the KB
    entities: int  # of these mentions
    seen: int  # mentions in the corpora whose entity is in the KB
    weight: MentionWeight | None  # of mentions; None if the KB has no vectors


def learn_mentions_of(
    folder: Path,
    corpora: Sequence[str | Path],
    *,
    nlp: Language | None = None,
    spans_key: str | None = None,
    per_entity: int = PER_ENTITY,
    limit: int = 0,
    fit: str | Path | None = None,
    progress: Callable[[], object] = lambda: None,
) -> LearntMentions:
    """Add the gold mentions of corpora to the index of a KB, and fit the weight of mentions.

    Each corpus is a source, named after its file and folder. It replaces a learnt source with the same
    name.

    The other arguments, and errors, are those of ``learn_names``.

    Args:
        per_entity: The maximum number of mentions of an entity to learn from a corpus, sampled at random;
            0: all.
        limit: The maximum number of documents of each file; 0: all.
        fit: A corpus of other documents to which the weight is fitted. None: all mentions in the KB, each
            searched among the mentions of other documents. The weight is then too low if the KB has learnt
            the names of these mentions from the same documents.
    """
    linker = linker_of(nlp) if nlp else None
    encoder = KBEncoder(linker, nlp) if linker else None
    resolve = linker.search.resolve_abbreviations if linker else True
    sources = {"/".join(Path(name).parts[-2:]): name for name in corpora}
    if len(sources) < len(corpora):
        raise PelError("two corpora have the same name", "learn one after the other")

    def read(name: str | Path, limit: int = 0) -> list[MentionPassage]:
        examples = open_corpus(name, limit=limit, spans_key=spans_key)(nlp or spacy.blank("en"))
        passages: list[MentionPassage] = []
        with KnowledgeBase.open(folder) as kb:
            for example in examples:
                progress()
                passages += gold_passages(example, kb, spans_key, resolve)
        return passages

    n_seen, n_learnt = 0, 0
    entities: set[str] = set()
    for source, name in sources.items():
        passages = read(name, limit)
        sample = sampled(passages, per_entity)
        n_learnt += learn_mentions(folder, source, sample, encoder)
        n_seen += sum(len(passage.mentions) for passage in passages)
        entities |= {mention.id for passage in sample for mention in passage.mentions}
    weight = None
    if encoder:
        with KnowledgeBase.open(folder) as kb:
            queries = queries_of_passages(kb, encoder, read(fit)) if fit else queries_of_learnt(kb)
            weight = fitted_weight(kb, queries)
    if weight:
        set_mention_weight(folder, weight)
    return LearntMentions(n_learnt, len(entities), n_seen, weight)


def gold_passages(
    example: Example, kb: KnowledgeBase, spans_key: str | None, resolve: bool
) -> Iterator[MentionPassage]:
    """Yield the text of an example with its mentions of exactly one entity of the KB.

    Mentions that are read in another text, in which abbreviations are expanded (``resolve``), form a second
    passage.
    """
    from ..pipeline.doc_mentions import mentions_in_context  # here, because torch takes seconds

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


def sampled(passages: Sequence[MentionPassage], per_entity: int) -> list[MentionPassage]:
    """Return the passages with a random sample of the mentions of each entity; 0 keeps all."""
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
    """Mentions with known entities."""

    vectors: np.ndarray  # float32 [n, dim]
    golds: np.ndarray  # int64 [n], numbers of the gold entities
    near: NearMentions  # learnt mentions


def queries_of_passages(
    kb: KnowledgeBase, encoder: Encoder, passages: Sequence[MentionPassage]
) -> Queries:
    """Return the mentions of documents as queries; the KB has not learnt these mentions."""
    vectors = encoder.mention_vectors(passages)
    golds = [kb.number(mention.id) for passage in passages for mention in passage.mentions]
    return Queries(vectors, np.array(golds), kb.mentions.nearest(vectors, NEAREST))


def queries_of_learnt(kb: KnowledgeBase) -> Queries:
    """Return a sample of the learnt mentions of each source, without neighbours in the same document."""
    mentions = kb.mentions
    samples = []
    for source in mentions.sources:
        source_rows = np.flatnonzero(mentions.rows.sources == source)
        order = np.random.default_rng(_SEED).permutation(len(source_rows))
        samples.append(source_rows[order[:_N_FITTED]])
    rows = np.concatenate(samples)
    vectors = mentions.index.matrix.take(rows)
    near = mentions.nearest(vectors, NEAREST + _N_SAME_DOCUMENT)
    documents = np.where(near.rows >= 0, mentions.rows.documents[near.rows], -1)
    is_same_document = documents == mentions.rows.documents[rows][:, None]
    order = np.argsort(is_same_document, axis=1, kind="stable")[:, :NEAREST]
    others = NearMentions(
        np.take_along_axis(near.scores, order, axis=1),
        np.take_along_axis(np.where(is_same_document, -1, near.numbers), order, axis=1),
        np.take_along_axis(near.rows, order, axis=1),
    )
    return Queries(vectors, mentions.rows.numbers[rows], others)


def fitted_weight(kb: KnowledgeBase, queries: Queries) -> MentionWeight | None:
    """Return the weight of mentions, fitted to queries, or None if there are too few queries."""
    names = kb.search(queries.vectors, _N_CANDIDATES, with_mentions=False)
    lines, numbers, *scores = scored_pairs(kb.vectors, queries.vectors, names, queries.near)
    # Tables [n, k] of the candidates of each query: the score by name, the similarity of mentions (-inf if
    # none is near), and whether the candidate is correct.
    ranks = np.arange(len(lines)) - np.searchsorted(lines, lines)
    shape = (len(queries.golds), ranks.max(initial=0) + 1)
    by_name, closeness = np.full((2, *shape), -np.inf)
    is_correct = np.zeros(shape, bool)
    by_name[lines, ranks], closeness[lines, ranks] = scores
    is_correct[lines, ranks] = numbers == queries.golds[lines]
    is_near = np.isfinite(closeness)
    features = [is_near, np.where(is_near, closeness, 0.0)]
    weights = feature_weights(by_name, features, is_correct)
    if weights is None or weights[1] <= 0:
        return None
    bonus, weight = weights
    return MentionWeight(float(weight), float(-bonus / weight))
