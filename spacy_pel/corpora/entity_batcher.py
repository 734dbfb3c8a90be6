"""Batches with several mentions of each entity, for losses over pairs of mentions."""

# Without "from __future__ import annotations": the registry reads the types of the function below.

import random
from collections.abc import Iterable, Iterator
from itertools import islice

from spacy.tokens import Span
from spacy.training import Example

from ..errors import PelError
from .mention_batcher import Batcher, DocumentMentions, examples_of, mentions_in_order


def make_entity_batcher(
    size: int, per_entity: int = 2, spans_key: str | None = None, documents: int = 20_000
) -> Batcher:
    """Make a batcher whose batches have several mentions of each entity, for ``[training.batcher]``.

    The mentions of an entity are shuffled, and taken in groups of ``per_entity``. Groups are shuffled
    as well. What is left of an entity is a smaller group.

    Args:
        size: The number of mentions of a batch; 2N in KRISSBERT's Eq. 2, where it is 512.
        per_entity: The number of mentions of an entity in a batch, as long as it has that many.
        spans_key: Where the mentions are, as in the corpus.
        documents: The number of documents that are grouped together. They are in memory: 20,000
            windows of 64 words take less than a GB. With ``max_epochs = -1``, the mentions of an
            entity should stand together in the corpus, as in what "pel mentions" writes.

    Returns:
        The batcher. Its order follows from the state of ``random`` when it begins, which spaCy sets.

    Raises:
        PelError: The size is smaller than a group, or a group has no pair.
    """
    if not 2 <= per_entity <= size:
        raise PelError(
            f"a batch of {size} mentions, with {per_entity} of an entity",
            "give 2 or more of an entity, and at least that size",
        )

    def batches(examples: Iterable[Example]) -> Iterator[list[Example]]:
        # All is drawn from one seed, as in ``batch_by_mentions``.
        rng = random.Random(random.getrandbits(64))
        found = (DocumentMentions.of(example, spans_key) for example in examples)
        while some := list(islice(found, documents)):
            groups = _groups(some, per_entity, rng)
            while batch := _filled(groups, size):
                yield examples_of(batch, spans_key)

    return batches


_Mention = tuple[DocumentMentions, Span]


def _groups(
    documents: Iterable[DocumentMentions], per_entity: int, rng: random.Random
) -> list[list[_Mention]]:
    """The mentions of entities in groups, shuffled."""
    by_entity: dict[str, list[_Mention]] = {}
    for document, mention in mentions_in_order(documents):
        by_entity.setdefault(mention.kb_id_, []).append((document, mention))
    groups = []
    for mentions in by_entity.values():
        rng.shuffle(mentions)
        groups += [mentions[i : i + per_entity] for i in range(0, len(mentions), per_entity)]
    rng.shuffle(groups)
    return groups


def _filled(groups: list[list[_Mention]], size: int) -> list[_Mention]:
    """The mentions of the last groups, which are taken away, up to a size."""
    batch: list[_Mention] = []
    while groups and len(batch) + len(groups[-1]) <= size:
        batch += groups.pop()
    return batch
