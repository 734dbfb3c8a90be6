"""The names of a knowledge base as a corpus: to align them before training on text.

Each alias is a document, and the whole of it a mention of its entity. Trained on these with
``name_dropout = 1.0``, so that the proxy of a mention is its entity's canonical name, an encoder
learns what the names of one thing have in common (the idea of SapBERT, Liu et al. 2021).
"""

from collections.abc import Iterator

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.names import name_hash, normalised
from .document import Document, mention_at
from .document_corpus import Corpus

# Entities whose names are held and shuffled at a time: many batches of them.
CHUNK = 4096
PARTS = ("all", "train", "dev")
_ONE_IN = 20  # names is one of dev


def make_name_corpus(kb: str, limit: int = 0, seed: int = 0, part: str = "all") -> Corpus:
    """Return the aliases of a KB as a corpus, for a ``[corpora]`` block of a config.

    Each alias comes once, in an order that only the seed decides: entities are drawn in random order,
    and the aliases of some thousands of them at a time are shuffled. Memory grows with the KB by 8
    bytes an entity. Set ``max_epochs`` to -1, or spaCy holds all examples.

    ``limit`` is the number of names taken; 0 takes all. ``part``: "dev" is one name in twenty,
    "train" all others, and "all" both. Names that differ only in case or punctuation are in the same
    part. PelError for another part.
    """
    if part not in PARTS:
        raise PelError(f'no part "{part}" of the names', f"choose one of {', '.join(PARTS)}")

    def is_in_part(name: str) -> bool:
        is_dev = name_hash(normalised(name)) % _ONE_IN == 0
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
