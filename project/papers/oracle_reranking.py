"""How well a reranker tells candidates apart, if the right one is always among them (ArboEL, 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.fitting.gold_examples import check_ids, gold_examples
from spacy_pel.kb.vectors.index import Candidates
from spacy_pel.linking.reranking import reranked_candidates
from spacy_pel.pipeline.doc_mentions import trainable_mentions
from spacy_pel.pipeline.pipelines import linker_of

if TYPE_CHECKING:
    from spacy_pel.pipeline.proxy_linker import ProxyLinker
    from spacy_pel.reading.mention import GoldMention

# The scores by the numbers of a mention's candidates, best first.
Found = dict[int, float]


def oracle_recall(
    nlp: Language,
    corpus: Sequence[str | Path],
    *,
    retrievers: Sequence[Language] = (),
    component: str = "proxy_linker",
    limit: int = 0,
) -> dict[str, float]:
    """Rerank the candidates of gold mentions, after the right entity was put among them.

    As in training, it takes the place of the last candidate where none is right. A candidate that the
    linker's own retriever did not find has the retriever's score of the last one that it found.

    Args:
        nlp: A pipeline with a trained reranker.
        corpus: Names of corpora, as ``corpora.document_corpus.open_corpus`` takes them.
        retrievers: Pipelines whose candidates are added for "union". They have the same component.
        component: The name of the linker in the pipelines.
        limit: The number of documents taken of each corpus file. 0 takes all.

    Returns:
        The share of mentions whose first candidate is right, of those whose entity the KB has:
        "retrieved", among the linker's own candidates; "self", among these and the right one;
        "union", among these, those of all ``retrievers`` and the right one.

    Raises:
        PelError: There is no reranker, no mention, or the KB has none of the gold ids.
    """
    linker = linker_of(nlp, component)
    if linker.reranking is None:
        raise PelError(f'"{component}" has no reranker', "give a pipeline that has one")
    examples = gold_examples(nlp, linker, corpus, limit)
    check_ids(examples, linker, corpus)
    resolved = linker.resolve_abbreviations
    mentions = trainable_mentions(examples, linker.kb, linker.spans_key, resolved)
    found = _found(linker, linker, mentions)
    others = [_found(linker, linker_of(each, component), mentions) for each in retrievers]
    right = {"retrieved": 0, "self": 0, "union": 0}
    for mention, own, *added in zip(mentions, found, *others):
        last = min(own.values())
        with_gold = dict(own)
        if own.keys().isdisjoint(mention.golds):
            with_gold.popitem()
            with_gold[mention.golds[0]] = last
        union = {**{n: last for each in added for n in each}, **own}
        if union.keys().isdisjoint(mention.golds):
            union[mention.golds[0]] = last
        for name, candidates in (("retrieved", own), ("self", with_gold), ("union", union)):
            right[name] += _first(linker, mention, candidates) in mention.golds
    return {name: count / len(mentions) for name, count in right.items()}


def _found(linker: ProxyLinker, other: ProxyLinker, mentions: Sequence[GoldMention]) -> list[Found]:
    """What the retriever of a linker, or of another one, finds, by the numbers of the linker's KB."""
    vectors = other.retriever.mention_vectors([mention.context for mention in mentions])
    numbers, scores = other.index.search(vectors, linker.reranked)
    distinct = np.unique(numbers[numbers >= 0])
    own = {
        n: linker.kb.number(id) for n, (id, _) in zip(distinct.tolist(), other.kb.labels(distinct))
    }
    return [
        {own[n]: score for n, score in zip(*row) if own.get(n) is not None}
        for row in zip(numbers.tolist(), scores.tolist())
    ]


def _first(linker: ProxyLinker, mention: GoldMention, candidates: Found) -> int:
    """The candidate that comes first once all are reranked."""
    given = Candidates(
        np.array([list(candidates)], dtype=np.int64),
        np.array([list(candidates.values())], dtype=np.float32),
    )
    reranking = linker.reranking._replace(top=len(candidates))
    reranked, _ = reranked_candidates(given, [mention.context], reranking)
    return int(reranked.numbers[0, 0])
