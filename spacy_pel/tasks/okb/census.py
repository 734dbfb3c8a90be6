"""The mentions of a split, counted by what they mean and how they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ...documents.document import Document
from ...kb import KnowledgeBase


class Kind(NamedTuple):
    """What mentions of the same meaning and form have in common.

    entities: the concept ids of those of the mention's ids that the KB has.
    form: how it reads, in lower case and with single blanks.
    """

    entities: tuple[str, ...]
    form: str


class Census(NamedTuple):
    """documents and mentions of a split; kinds: those of the mentions with an entity in the KB."""

    documents: int
    mentions: int
    kinds: Counter[Kind]

    @property
    def entities(self) -> set[str]:
        return {entity for kind in self.kinds for entity in kind.entities}

    def without(self, taken: Collection[str]) -> Iterator[tuple[Kind, int]]:
        """The kinds that become NIL without these entities, with their numbers of mentions."""
        for kind, count in self.kinds.items():
            if all(entity in taken for entity in kind.entities):
                yield kind, count


class Figures(NamedTuple):
    """What the paper's Table 7 says of a split, and how much of it is seen in training.

    entities_seen, mentions_seen: the share of the entities, and of the mentions, of which an entity
    is in train. forms_seen: the share of the distinct forms that are in train. None of nothing.
    """

    mentions: int
    entities: int
    entities_seen: float | None
    mentions_seen: float | None
    forms_seen: float | None


def resolved_ids(kb: KnowledgeBase, ids: Iterable[str]) -> dict[str, str]:
    """The concept ids of those of the ids that the KB has."""
    numbers = {id: number for id in ids if (number := kb.number(id)) is not None}
    return {id: label[0] for id, label in zip(numbers, kb.labels(list(numbers.values())))}


def census_of(kb: KnowledgeBase, documents: Iterable[Document]) -> Census:
    """Counts the documents of a split."""
    resolved: dict[str, str | None] = {}
    kinds: Counter[Kind] = Counter()
    n_documents = n_mentions = 0
    for document in documents:
        n_documents += 1
        n_mentions += len(document.mentions)
        new = {id for mention in document.mentions for id in mention.ids} - resolved.keys()
        resolved.update(dict.fromkeys(new) | resolved_ids(kb, sorted(new)))
        for mention in document.mentions:
            entities = tuple(dict.fromkeys(filter(None, map(resolved.get, mention.ids))))
            if entities:
                kinds[Kind(entities, " ".join(mention.text.lower().split()))] += 1
    return Census(n_documents, n_mentions, kinds)


def figures(split: Census, train: Census, taken: Collection[str] | None = None) -> Figures:
    """The figures of the mentions that become NIL, or of all with an entity in the KB if None."""
    pairs = list(split.kinds.items() if taken is None else split.without(taken))
    of_train = train.kinds if taken is None else dict(train.without(taken))
    trained, trained_forms = train.entities, {kind.form for kind in of_train}
    entities = {entity for kind, _ in pairs for entity in kind.entities}
    forms = {kind.form for kind, _ in pairs}
    mentions = sum(count for _, count in pairs)
    seen = sum(count for kind, count in pairs if not trained.isdisjoint(kind.entities))
    return Figures(
        mentions,
        len(entities),
        _share(len(entities & trained), len(entities)),
        _share(seen, mentions),
        _share(len(forms & trained_forms), len(forms)),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
