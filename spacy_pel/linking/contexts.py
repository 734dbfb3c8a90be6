"""The words around mentions of entities, which tell the senses of abbreviations apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from math import log
from typing import Any, NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.names import normalised
from .ordering import is_acronym

_WORD = re.compile(r"[a-z0-9]+")
_STEM = 6  # characters of a word that count
_WINDOW = 200  # characters on either side of a mention
_COMMON = 0.03  # the share of texts with a word beyond which it tells nothing
_PRIOR = 10  # the weight, in texts, of the words of all texts
_OF_NAMES, _OF_DEFINITION = 3, 2  # the weights, in texts, of an entity's names and its definition
_KEPT = 96  # words of an entity
_MOST = 12.0  # the largest score


class Context(NamedTuple):
    """The words around an entity.

    Attributes:
        words: For each stem, the log-ratio of its share in the entity's texts to that in all texts.
        other: The same for a stem that none of the entity's texts has.
    """

    words: Mapping[str, float]
    other: float

    def score(self, stems: Iterable[str]) -> float:
        """Return the log-ratio of these stems' probability near the entity to that in all texts."""
        total = sum(self.words.get(stem, self.other) for stem in stems)
        return min(max(total, -_MOST), _MOST)


class Contexts(NamedTuple):
    """The words around the entities that share an abbreviation with others: a naive Bayes classifier.

    Attributes:
        common: Stems too common to distinguish senses.
        entities: By id.
    """

    common: frozenset[str] = frozenset()
    entities: Mapping[str, Context] = {}

    def stems_around(self, text: str, start: int, end: int) -> set[str]:
        """Return the stems within 200 characters of a mention, without the common ones."""
        around = f"{text[max(0, start - _WINDOW) : start]} {text[end : end + _WINDOW]}"
        return stems(around) - self.common

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        entities = {id: [dict(c.words), c.other] for id, c in self.entities.items()}
        return {"common": sorted(self.common), "entities": entities}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Contexts:
        """Make it from ``as_data``."""
        entities = {id: Context(*fields) for id, fields in data["entities"].items()}
        return cls(frozenset(data["common"]), entities)


def stems(text: str) -> set[str]:
    """Return the stems of the words of a text: their first six letters in lower case."""
    return {word[:_STEM] for word in _WORD.findall(text.lower())}


def learnt_contexts(kb: KnowledgeBase, texts: Iterable[str]) -> Contexts:
    """Learn the words around entities that share an acronym with other entities.

    A text counts for an entity if it contains a name that only this entity has and that is no acronym.

    Args:
        kb: The KB of the entities.
        texts: The texts to learn from.
    """
    senses: dict[str, set[int]] = {}
    for entity in kb:
        for name in filter(is_acronym, entity.names):
            if name not in senses:
                senses[name] = set(kb.numbers_named(name).tolist())
    ambiguous = [numbers for numbers in senses.values() if len(numbers) > 1]
    numbers = np.array(sorted(set().union(*ambiguous)))
    finder = kb.name_finder(entities=numbers.astype(np.int64))
    in_texts, counts, sizes = Counter[str](), dict[int, Counter[str]](), Counter[int]()
    n_texts = 0
    for text in texts:
        words = stems(text)
        in_texts.update(words)
        n_texts += 1
        entities = {
            int(owners[0])
            for start, end, owners in finder.find(text)
            if len(owners) == 1 and not is_acronym(text[start:end])
        }
        for number in entities:
            counts.setdefault(number, Counter()).update(words)
            sizes[number] += 1
    share = {stem: (count + 0.5) / (n_texts + 1) for stem, count in in_texts.items()}
    common = frozenset(stem for stem, value in share.items() if value > _COMMON)
    unseen = 0.5 / (n_texts + 1)
    contexts = {}
    for number, entity in zip(numbers.tolist(), kb.entities(numbers)):
        weights, size = counts.get(number, Counter()), sizes[number]
        names = " ".join(name for name in entity.names if not is_acronym(name))
        for text, weight in ((names, _OF_NAMES), (entity.definition or "", _OF_DEFINITION)):
            if text:
                weights.update(dict.fromkeys(stems(normalised(text)), weight))
                size += weight
        ratios = {}
        for stem in weights.keys() - common:
            of_all = share.get(stem, unseen)
            ratios[stem] = round(log((weights[stem] / of_all + _PRIOR) / (size + _PRIOR)), 2)
        by_weight = sorted(ratios, key=lambda stem: (-weights[stem] * abs(ratios[stem]), stem))
        telling = {stem: ratios[stem] for stem in by_weight[:_KEPT]}
        other = round(log(_PRIOR / (size + _PRIOR)), 2)
        contexts[entity.concept_id] = Context(telling, other)
    return Contexts(common, contexts)
