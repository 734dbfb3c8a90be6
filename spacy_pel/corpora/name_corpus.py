"""The names of a knowledge base as a corpus, to align them before training on text.

Each alias is a document with one mention, which is the whole text. Train with ``name_dropout = 1.0``,
so that the proxy of a mention is the canonical name of its entity. The encoder then learns what the
names of an entity have in common (the idea of SapBERT, Liu et al. 2021).
"""

from collections.abc import Iterator

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.names import name_hash, normalised
from .document import Document, mention_at
from .document_corpus import Corpus

CHUNK = 4096  # entities whose names are shuffled together: many batches
PARTS = ("all", "train", "dev")
_DEV_INTERVAL = 20  # one of so many names is in "dev"


def make_name_corpus(kb: str, limit: int = 0, seed: int = 0, part: str = "all") -> Corpus:
    """Return the aliases of a KB as a corpus, for a ``[corpora]`` block of a config.

    Each alias occurs once, in an order that depends on the seed: entities are drawn in random order,
    and the aliases of some thousands of them are shuffled together. An entity takes 8 bytes of memory.
    Set ``max_epochs`` to -1; otherwise spaCy keeps all examples in memory.

    Args:
        kb: The folder of the KB.
        limit: The maximum number of names; 0: all.
        seed: The seed of the order.
        part: "dev" is one name in twenty, "train" the others, "all" both. Names that differ only in
            case or punctuation are in the same part.

    Raises:
        PelError: There is no such part.
    """
    if part not in PARTS:
        raise PelError(f'unknown part of the names: "{part}"', f"choose one of {', '.join(PARTS)}")

    def is_in_part(name: str) -> bool:
        is_dev = name_hash(normalised(name)) % _DEV_INTERVAL == 0
        return part == "all" or is_dev == (part == "dev")

    def names() -> Iterator[Document]:
        base, rng = KnowledgeBase.open(kb), np.random.default_rng(seed)
        numbers = rng.permutation(base.numbers())
        for first in range(0, len(numbers), CHUNK):
            pairs = [
                (alias, entity.concept_id)
                for entity in base.entities(numbers[first : first + CHUNK])
                for alias in entity.names[1:]
                if is_in_part(alias)
            ]
            for place in rng.permutation(len(pairs)):
                name, id = pairs[place]
                yield Document(name, id, (mention_at(name, 0, len(name), "NAME", (id,)),))

    return Corpus(lambda: iter([(kb, names())]), limit=limit)
