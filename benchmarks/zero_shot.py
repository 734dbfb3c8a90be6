"""Names taken out of a knowledge base, one at a time, and linked back: a table for each KB.

    python benchmarks/zero_shot.py KB... [--pipeline PIPELINE]... [--questions 2000]

A question is a name of an entity that has others. The name is taken out of the entity, also where it
is written with other blanks, punctuation or case, and is then linked as a text of its own. The right
answer is the entity. If the canonical name is taken out, the first alias takes its place. So a
pipeline can be measured on an ontology that it never saw, without annotations.

Prints recall@k of scispaCy's TF-IDF (see scispacy_recall.py) and of each pipeline, to the same
questions. Search is exact for both. Each KB must have the vectors of each pipeline.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import typer
from scispacy_recall import CHUNK, KS, Dictionary
from spacy.language import Language

from spacy_pel import KnowledgeBase
from spacy_pel.evaluation.linking_metrics import markdown_table
from spacy_pel.jobs.kb_rows import LinkerRows
from spacy_pel.kb import Entity
from spacy_pel.kb.records.names import normalised
from spacy_pel.linking.ordering import is_acronym
from spacy_pel.pipeline.doc_mentions import mentions_in_context, read_documents
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline, read_by_upstream
from spacy_pel.pipeline.proxy_linker import ProxyLinker


class Question(NamedTuple):
    """A name that was taken out of an entity.

    Attributes:
        name: The name.
        number: The number of the entity.
        others: The entity without the name.
    """

    name: str
    number: int
    others: Entity


def main(kb: list[Path], pipeline: list[str] = [], questions: int = 2000, seed: int = 0) -> None:
    """Print recall@k of names that are taken out of each KB one at a time."""
    for path in kb:
        base = KnowledgeBase.open(path)
        asked = drawn(base, questions, seed)
        rows = [["scispaCy's TF-IDF", *percent(dictionary_hits(base, asked))]]
        for each in pipeline:
            rows.append([each, *percent(linker_hits(load_pipeline(each), path, asked))])
        print(f"\n{path}: {len(asked):,} names of {len(base):,} entities\n")
        print(markdown_table(["", *(f"@{k}" for k in KS)], rows), flush=True)


def drawn(kb: KnowledgeBase, n: int, seed: int) -> list[Question]:
    """Questions drawn from all names of a KB; fewer than n if it has fewer."""
    numbers = kb.numbers().tolist()
    found = [
        Question(name, number, without(entity, name))
        for number, entity in zip(numbers, kb.entities(numbers))
        for name in entity.names
        if any(normalised(other) != normalised(name) for other in entity.names)
    ]
    return random.Random(seed).sample(found, min(n, len(found)))


def without(entity: Entity, name: str) -> Entity:
    """An entity without a name, however it is written; at least one name must be left."""
    kept = [other for other in entity.names if normalised(other) != normalised(name)]
    return entity._replace(canonical_name=kept[0], aliases=tuple(kept[1:])) if kept else entity


def dictionary_hits(kb: KnowledgeBase, asked: Sequence[Question]) -> np.ndarray:
    """What scispaCy's TF-IDF finds: for each question and each k the share of a hit."""
    dictionary = Dictionary(kb)
    names = np.array(
        [normalised(name) for entity in kb.entities(kb.numbers()) for name in entity.names]
    )
    hits = []
    for chunk in chunks(asked):
        words = [question.name for question in chunk]
        scores = (dictionary.vectorizer.transform(words) @ dictionary.matrix).tocsr()
        for row, question in zip(scores, chunk):
            owners, values = dictionary.owners[row.indices], np.round(row.data, 6)
            right = owners == question.number
            left = right & (names[row.indices] != normalised(question.name))
            gold = values[left].max(initial=0)
            hits.append(ranked(owners[~right], values[~right], gold) if gold else np.zeros(len(KS)))
    return np.array(hits)


def linker_hits(nlp: Language, path: Path, asked: Sequence[Question]) -> np.ndarray:
    """What a linker finds. Exact names count as in the pipeline."""
    linker = linker_of(nlp, kb=path)
    kb, encoder = linker.index, LinkerRows(linker)
    numbers = kb.numbers()
    vectors, owners = kb.rows(numbers)
    owners = numbers[owners]
    hits = []
    for chunk in chunks(asked):
        mentions = mention_vectors(nlp, linker, [question.name for question in chunk])
        own, places = encoder.rows([question.others for question in chunk])
        for place, (scores, question) in enumerate(zip(mentions @ vectors.T, chunk)):
            gold = (own[places == place] @ mentions[place]).max()
            others = owners != question.number
            named = np.setdiff1d(kb.numbers_named(question.name), [question.number])
            if len(named) == 1 and not is_acronym(question.name):
                scores = np.where(np.isin(owners, named), np.inf, scores)
            hits.append(ranked(owners[others], scores[others], gold))
    return np.array(hits)


def mention_vectors(nlp: Language, linker: ProxyLinker, names: Sequence[str]) -> np.ndarray:
    """The vectors of names, each of which is a text of its own."""
    docs = list(read_by_upstream(nlp, linker.name, [nlp.make_doc(name) for name in names]))
    documents, _ = read_documents(linker.model, docs)
    read = (mentions_in_context(d, [d[:]], context, True) for d, context in zip(docs, documents))
    mentions = [mention for own in read for mention in own]
    return linker.retriever.mention_vectors(mentions)


def ranked(owners: np.ndarray, scores: np.ndarray, gold: float) -> np.ndarray:
    """For each k the probability that the gold entity is among the k best, with ties shuffled."""
    best = np.full(owners.max(initial=0) + 1, -np.inf)
    np.maximum.at(best, owners, scores)
    above, tied = (best > gold).sum(), 1 + (best == gold).sum()
    return np.clip((np.array(KS) - above) / tied, 0, 1)


def chunks(asked: Sequence[Question]) -> Iterator[Sequence[Question]]:
    for first in range(0, len(asked), CHUNK):
        yield asked[first : first + CHUNK]


def percent(hits: np.ndarray) -> list[str]:
    return [f"{100 * share:.1f}" for share in hits.mean(axis=0)]


if __name__ == "__main__":
    typer.run(main)
