"""Batches with several mentions of each entity, for losses over pairs of mentions."""

# Without "from __future__ import annotations": the registry reads the types of the function below.

import random
from collections.abc import Iterable, Iterator
from itertools import islice

from spacy.training import Example

from ..errors import PelError
from .mention_batcher import Batcher, examples_of, mentions_of


def make_entity_batcher(
    size: int, per_entity: int = 2, spans_key: str | None = None, documents: int = 20_000
) -> Batcher:
    """Make a batcher whose batches have several mentions of each entity, for ``[training.batcher]``.

    The mentions of an entity are shuffled, and taken in groups of ``per_entity``. Groups are shuffled
    as well. What is left of an entity is a smaller group. The order follows from the state of
    ``random`` when the batcher begins, which spaCy sets.

    Args:
        size: The number of mentions of a batch; 2N in KRISSBERT's Eq. 2, where it is 512.
        per_entity: The number of mentions of an entity in a batch, as long as it has that many.
        spans_key: Where the mentions are, as in the corpus.
        documents: The number of documents that are grouped together. They are in memory: 20,000
            windows of 64 words take less than a GB. With ``max_epochs = -1``, the mentions of an
            entity should stand together in the corpus, as in what "pel mentions" writes.

    Raises:
        PelError: The size is smaller than a group, or a group has no pair.
    """
    if not 2 <= per_entity <= size:
        raise PelError(
            f"a batch of {size} mentions, with {per_entity} of an entity",
            "give 2 or more of an entity, and at least that size",
        )

    def batches(examples: Iterable[Example]) -> Iterator[list[Example]]:
        # All is drawn from one seed, as in ``make_mention_batcher``.
        rng = random.Random(random.getrandbits(64))
        examples = iter(examples)
        while some := list(islice(examples, documents)):
            by_entity: dict[str, list] = {}
            for document, mention in mentions_of(some, spans_key):
                by_entity.setdefault(mention.kb_id_, []).append((document, mention))
            groups = []
            for mentions in by_entity.values():
                rng.shuffle(mentions)
                groups += [
                    mentions[i : i + per_entity] for i in range(0, len(mentions), per_entity)
                ]
            rng.shuffle(groups)
            while groups:
                batch = groups.pop()
                while groups and len(batch) + len(groups[-1]) <= size:
                    batch += groups.pop()
                yield examples_of(batch, spans_key)

    return batches
