"""Ground names in a KB: find the entities that they mean.

Names are compared with the names of entities: exactly, or else by the vectors of a linker, or by character
trigrams if there is only a KB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.names import american, normalised
from ..linking.name_similarity import trigram_similarity
from ..text.entity_texts import EntityText

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

Source: TypeAlias = "KnowledgeBase | ProxyLinker"
_N_NEAREST = 16  # entities to compare with a name
_NO_ENTITY = -1  # in place of the number of an entity
# The odds that a name means an entity are the inverse square of its distance from the name.
_MIN_DISTANCE = 0.02
_MIN_SIMILARITY = 0.5  # above it, a name may mean an entity
_MAX_PROBABILITY = 0.99


@dataclass(frozen=True)
class Meaning:
    """An entity that a name may mean.

    Attributes:
        id: Its concept id.
        name: Its preferred name.
        probability: The probability that the name means this entity and not the best other one.
    """

    id: str
    name: str
    probability: float


def ground(source: Source, names: Sequence[str], n: int = 5) -> list[list[Meaning]]:
    """Return the n most probable entities of each name, best first. There may be fewer than n.

    Entities with exactly this name come first. Others are searched if these are fewer than n.
    """
    kb = kb_of(source)
    exact = {name: kb.numbers_named(name).tolist() for name in dict.fromkeys(names)}
    odds = [
        {_NO_ENTITY: _odds(_MIN_SIMILARITY)} | dict.fromkeys(exact[name], _odds(1.0))
        for name in names
    ]
    few = [i for i, name in enumerate(names) if len(exact[name]) < n]
    if few:
        nearest = _nearest(source, [names[i] for i in few])
        for i, numbers, similarities in zip(few, *nearest):
            for number, similarity in zip(numbers.tolist(), similarities.tolist()):
                odds[i].setdefault(number, _odds(similarity))
    distinct = sorted({number for name_odds in odds for number in name_odds} - {_NO_ENTITY})
    labels = {_NO_ENTITY: ("", "")} | dict(zip(distinct, kb.labels(distinct)))
    grounded = []
    for name_odds in odds:
        order = sorted(name_odds, key=lambda number: (-name_odds[number], labels[number]))
        meanings = []
        for number in order:
            rivals = [other for other in order[:2] if other != number]
            both = name_odds[number] + (name_odds[rivals[0]] if rivals else 0.0)
            probability = round(min(_MAX_PROBABILITY, name_odds[number] / both), 3)
            if number != _NO_ENTITY:
                meanings.append(Meaning(*labels[number], probability))
        grounded.append(meanings[:n])
    return grounded


def kb_of(source: Source) -> KnowledgeBase:
    """Return the KB itself, or that of a linker."""
    return source if isinstance(source, KnowledgeBase) else source.kb


def _odds(similarity: float) -> float:
    return float((max(1 - similarity, 0) + _MIN_DISTANCE) ** -2)


def _nearest(source: Source, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers and similarities, [n, k], of the k nearest entities of each name."""
    kb = kb_of(source)
    if isinstance(source, KnowledgeBase):
        numbers = kb.fuzzy_candidates(names, _N_NEAREST)
        distinct = np.unique(numbers[numbers >= 0])
        entities = dict(zip(distinct.tolist(), kb.entities(distinct)))
        surfaces = [american(normalised(name)) for name in names]
        return numbers, trigram_similarity(kb, surfaces, numbers, entities)[0]
    from ..models.architectures import entity_vectors  # here: torch takes seconds

    with source.runtime.use([source.retriever.get_ref("entity")]):
        vectors = entity_vectors(source.retriever, [EntityText(name) for name in names])
    candidates = kb.search(vectors, _N_NEAREST, with_mentions=False)
    return candidates.numbers, candidates.scores
