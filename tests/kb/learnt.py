"""What the tests of learnt mentions share: passages, an encoder of them, and a naive search."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.mention_changes import learn_mentions
from spacy_pel.kb.mentions import NEAREST, SHARPNESS, MentionPassage, MentionWeight, PassageMention

from .living import NameRows, name_vector

WEIGHT = MentionWeight(0.5, 0.25)
# For each source its mentions: words and the id that they mean.
Learnt = Mapping[str, Sequence[tuple[str, str]]]


class MentionRows(NameRows):
    """The vector of a mention is drawn from its words alone."""

    mention_fingerprint = "mentions"

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        words = [p.text[m.start : m.stop] for p in passages for m in p.mentions]
        return np.array([name_vector(word) for word in words], np.float32).reshape(-1, self.dim)


def passages(mentions: Iterable[tuple[str, str]]) -> list[MentionPassage]:
    """A passage for each two mentions."""
    pairs = list(mentions)
    made = []
    for n in range(0, len(pairs), 2):
        text, placed = "", []
        for words, id in pairs[n : n + 2]:
            placed.append(PassageMention(len(text) + 4, len(text) + 4 + len(words), id))
            text += f"the {words} of "
        made.append(MentionPassage(f"doc{n}", text, tuple(placed)))
    return made


def learn(folder: Path, source: str, mentions: Iterable[tuple[str, str]]) -> int:
    return learn_mentions(folder, source, passages(mentions), MentionRows())


def scored(
    entities: Iterable[Entity], learnt: Learnt, query: np.ndarray, weight: MentionWeight
) -> dict[str, float]:
    """The score of each entity, one mention at a time."""
    query = query.astype(float)
    names = {e.concept_id: max(query @ name_vector(n) for n in e.names) for e in entities}
    every = [pair for mentions in learnt.values() for pair in mentions if pair[1] in names]
    near = sorted((-(query @ name_vector(words)), id) for words, id in every)[:NEAREST]
    scores = dict(names)
    for id in {id for _, id in near}:
        total = sum(math.exp(-SHARPNESS * s) for s, other in near if other == id)
        scores[id] += weight.weight * max(0.0, math.log(total) / SHARPNESS - weight.level)
    return scores


def assert_finds(folder: Path, entities: Iterable[Entity], learnt: Learnt) -> None:
    """That a KB finds what a KB of these entities and mentions must find, and knows why."""
    entities = list(entities)
    words = sorted({words for mentions in learnt.values() for words, _ in mentions})
    queries = np.array([name_vector(word) for word in [*words[:4], "another"]])
    with KnowledgeBase.open(folder) as kb:
        ids = {entity.concept_id for entity in entities}
        counts = {s: sum(id in ids for _, id in mentions) for s, mentions in learnt.items()}
        assert kb.mentions.counts() == counts
        found = kb.search(queries, len(entities))
        for query, numbers, scores in zip(queries, *found):
            wanted = scored(entities, learnt, query, kb.mentions.weight)
            assert list(scores) == sorted(scores, reverse=True)
            got = dict(zip((id for id, _ in kb.labels(numbers)), scores))
            assert got == pytest.approx(wanted, abs=1e-5)
        if not kb.mentions:
            return
        near = kb.mentions.nearest(queries, NEAREST)
        for query, rows, scores in zip(queries, near.rows, near.scores):
            rows, scores = rows[rows >= 0], scores[rows >= 0]
            for (source, mention), score in zip(kb.mentions.described(rows), scores):
                words = mention.text[mention.start : mention.stop]
                assert words in {words for words, _ in learnt[source]}
                assert abs(query @ name_vector(words) - score) < 1e-5
