"""The names that annotated mentions call entities by, for the knowledge base to know them too."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.entity import Entity
from ..kb.records.names import normalised
from ..reading.gold_mention import GoldMention


def renamed_entities(mentions: Iterable[GoldMention], kb: KnowledgeBase) -> list[Entity]:
    """The records, with new aliases, of the entities that mentions call by names not their own.

    A name is given to the entity that most of the mentions mean by it, of several to the first in
    the KB, in the spelling in which it came first. Names are the same that differ in case, blanks
    and punctuation alone. A mention of several entities, any of which is right, says nothing.
    """
    return [
        entity._replace(aliases=(*entity.aliases, *new))
        for entity, names in _named(mentions, kb)
        if (new := _missing(names, entity))
    ]


def _named(
    mentions: Iterable[GoldMention], kb: KnowledgeBase
) -> Iterable[tuple[Entity, dict[str, str]]]:
    """Entities, in the order of the KB, and what they are called: by normalised name, a name."""
    meant: dict[str, Counter] = defaultdict(Counter)
    spelled: dict[str, str] = {}
    for mention in mentions:
        key = normalised(mention.surface)
        if len(mention.golds) == 1 and key:
            meant[key][mention.golds[0]] += 1
            spelled.setdefault(key, mention.surface)
    names: dict[int, dict[str, str]] = defaultdict(dict)
    for key, counts in meant.items():
        number = min(counts, key=lambda n: (-counts[n], n))
        names[number][key] = spelled[key]
    numbers = sorted(names)
    return zip(kb.entities(numbers), [names[number] for number in numbers])


def _missing(names: dict[str, str], entity: Entity) -> list[str]:
    known = set(map(normalised, entity.names))
    return [name for key, name in names.items() if key not in known]
