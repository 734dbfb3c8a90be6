"""The mentions of a split, counted by their entities and their text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from spacy_pel.documents.document import Document
from spacy_pel.kb import KnowledgeBase


class MentionKind(NamedTuple):
    """Mentions with the same entities and the same text are of one kind.

    Attributes:
        entities: The concept ids of the entities that the KB has, of those that the mention names.
        form: The text, in lower case and with single blanks.
    """

    entities: tuple[str, ...]
    form: str


class Census(NamedTuple):
    """The documents and mentions of a split, counted.

    Attributes:
        documents: The number of documents.
        mentions: The number of mentions.
        kinds: For each kind the number of its mentions; mentions without an entity in the KB are
            left out.
    """

    documents: int
    mentions: int
    kinds: Counter[MentionKind]

    @property
    def entities(self) -> set[str]:
        """The concept ids of all entities that are mentioned."""
        return {entity for kind in self.kinds for entity in kind.entities}

    def without(self, taken: Collection[str]) -> Iterator[tuple[MentionKind, int]]:
        """The kinds that become NIL if these entities are taken out, and how many mentions each has."""
        for kind, count in self.kinds.items():
            if all(entity in taken for entity in kind.entities):
                yield kind, count


class SplitStatistics(NamedTuple):
    """The counts of the paper's Table 7 for a split, and the shares of it that are seen in training.

    A share is from 0 to 1; None if there are no mentions.

    Attributes:
        mentions: The number of mentions.
        entities: The number of distinct entities.
        entities_seen: The share of these entities that are mentioned in train.
        mentions_seen: The share of the mentions that have an entity which is mentioned in train.
        forms_seen: The share of the distinct forms (texts of mentions) that occur in train.
    """

    mentions: int
    entities: int
    entities_seen: float | None
    mentions_seen: float | None
    forms_seen: float | None


def resolved_ids(kb: KnowledgeBase, ids: Iterable[str]) -> dict[str, str]:
    """The concept id of each id, without ids that the KB lacks."""
    numbers = {id: number for id in ids if (number := kb.number(id)) is not None}
    return {id: label[0] for id, label in zip(numbers, kb.labels(list(numbers.values())))}


def census_of(kb: KnowledgeBase, documents: Iterable[Document]) -> Census:
    """Count the documents of a split and their mentions."""
    resolved: dict[str, str | None] = {}
    kinds: Counter[MentionKind] = Counter()
    n_documents = n_mentions = 0
    for document in documents:
        n_documents += 1
        n_mentions += len(document.mentions)
        new = {id for mention in document.mentions for id in mention.ids} - resolved.keys()
        resolved.update(dict.fromkeys(new) | resolved_ids(kb, sorted(new)))
        for mention in document.mentions:
            entities = tuple(dict.fromkeys(filter(None, map(resolved.get, mention.ids))))
            if entities:
                kinds[MentionKind(entities, " ".join(mention.text.lower().split()))] += 1
    return Census(n_documents, n_mentions, kinds)


def split_statistics(
    split: Census, train: Census, taken: Collection[str] | None = None
) -> SplitStatistics:
    """The statistics of a part of a split's mentions.

    Args:
        split: The split.
        train: The train split, which says what is seen.
        taken: The entities that are taken out of the KB: the mentions that become NIL are counted.
            None counts all mentions with an entity in the KB.
    """
    pairs = list(split.kinds.items() if taken is None else split.without(taken))
    of_train = train.kinds if taken is None else dict(train.without(taken))
    in_train, forms_in_train = train.entities, {kind.form for kind in of_train}
    entities = {entity for kind, _ in pairs for entity in kind.entities}
    forms = {kind.form for kind, _ in pairs}
    mentions = sum(count for _, count in pairs)
    seen = sum(count for kind, count in pairs if not in_train.isdisjoint(kind.entities))
    return SplitStatistics(
        mentions,
        len(entities),
        _share(len(entities & in_train), len(entities)),
        _share(seen, mentions),
        _share(len(forms & forms_in_train), len(forms)),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
