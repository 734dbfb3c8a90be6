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
from spacy_pel.pipeline.gold import trainable_mentions
from spacy_pel.pipeline.pipelines import linker_of
from spacy_pel.reading.mention import GoldMention

if TYPE_CHECKING:
    from spacy_pel.pipeline.proxy_linker import ProxyLinker

# The mentions that are searched and reranked at a time.
_TOGETHER = 1024


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
    resolved = linker.mention_settings.resolve_abbreviations
    mentions = trainable_mentions(examples, linker.kb, linker.spans_key, resolved)
    others = [linker_of(each, component) for each in retrievers]
    right: dict[str, int] = {"retrieved": 0, "self": 0, "union": 0}
    for start in range(0, len(mentions), _TOGETHER):
        own = mentions[start : start + _TOGETHER]
        found = _found(linker, own, linker.reranked)
        union = _united(found, [_numbers_of(linker, each, own) for each in others])
        for name, candidates in (
            ("retrieved", found),
            ("self", _with_right(found, own)),
            ("union", _with_right(union, own)),
        ):
            right[name] += _first_is_right(linker, candidates, own)
    return {name: count / len(mentions) for name, count in right.items()}


def _found(linker: ProxyLinker, mentions: Sequence[GoldMention], k: int) -> Candidates:
    """The k best candidates of a linker's retriever."""
    vectors = linker.retriever.mention_vectors([mention.context for mention in mentions])
    return linker.index.search(vectors, k)


def _numbers_of(
    linker: ProxyLinker, other: ProxyLinker, mentions: Sequence[GoldMention]
) -> np.ndarray:
    """What another linker's retriever finds, by the numbers of this one's KB, int64 [n, k]."""
    found = _found(other, mentions, linker.reranked).numbers
    distinct = np.unique(found[found >= 0])
    numbers = {-1: -1}
    for number, (id, _) in zip(distinct.tolist(), other.kb.labels(distinct)):
        own = linker.kb.number(id)
        numbers[number] = -1 if own is None else own
    return np.vectorize(numbers.__getitem__, otypes=[np.int64])(found)


def _united(found: Candidates, others: Sequence[np.ndarray]) -> Candidates:
    """The candidates, then each that only others found, and a free place at the end of each row."""
    more = [
        list(dict.fromkeys(n for row in rows for n in row.tolist() if n >= 0 and n not in own))
        for own, *rows in zip(map(set, found.numbers.tolist()), *others)
    ]
    width = 1 + max(map(len, more), default=0)
    added = np.array([own + [-1] * (width - len(own)) for own in more], dtype=np.int64)
    scores = np.full(added.shape, -np.inf, dtype=np.float32)
    return Candidates(
        np.concatenate([found.numbers, added], axis=1),
        np.concatenate([found.scores, scores], axis=1),
    )


def _with_right(found: Candidates, mentions: Sequence[GoldMention]) -> Candidates:
    """The candidates with the right one among them, and with scores for all."""
    from spacy_pel.training.reranker_trainer import with_added, with_gold

    numbers, _ = with_gold(found.numbers, [mention.golds for mention in mentions])
    unscored = (numbers != found.numbers) | ~np.isfinite(found.scores)
    scores = with_added(found.scores, unscored)
    return Candidates(numbers, np.where(numbers < 0, np.float32(-np.inf), scores))


def _first_is_right(
    linker: ProxyLinker, candidates: Candidates, mentions: Sequence[GoldMention]
) -> int:
    """How many mentions have a right candidate first, once all are reranked."""
    from spacy_pel.linking.reranking import reranked_candidates

    reranking = linker.reranking._replace(top=candidates.numbers.shape[1])
    contexts = [mention.context for mention in mentions]
    best = reranked_candidates(candidates, contexts, reranking)[0].numbers[:, 0]
    return sum(int(number) in mention.golds for number, mention in zip(best, mentions))
