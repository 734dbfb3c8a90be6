"""The names of a knowledge base as a corpus: to align them before training on text.

Each alias is a document, and the whole of it a mention of its entity. Trained on these with
``name_dropout = 1.0``, so that the proxy of a mention is its entity's canonical name, an encoder
learns what the names of one thing have in common (the idea of SapBERT, Liu et al. 2021).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..documents.document import Document, mention_at
from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.names import name_hash, normalised
from .document_corpus import Corpus

# Entities whose names are held and shuffled at a time: many batches of them.
CHUNK = 4096
PARTS = ("all", "train", "dev")
_ONE_IN = 20  # names is one of dev


def make_name_corpus(kb: str, limit: int = 0, seed: int = 0, part: str = "all") -> NameCorpus:
    """Return the names of a KB as a corpus, for a ``[corpora]`` block of a config."""
    return NameCorpus(kb, limit=limit, seed=seed, part=part)


class NameCorpus(Corpus):
    """Examples of the aliases of a KB: each of them once, in an order that only the seed decides.

    Entities are drawn in random order, and the aliases of some thousands of them at a time are
    shuffled. Memory grows with the KB by 8 bytes an entity. Set ``max_epochs`` to -1, or spaCy
    holds all examples.

    ``limit`` is the number of names taken; 0 takes all. ``part``: "dev" is one name in twenty,
    "train" all others, and "all" both. Names that differ only in case or punctuation are in the same
    part. PelError for another part.
    """

    def __init__(self, kb: str, *, limit: int = 0, seed: int = 0, part: str = "all") -> None:
        super().__init__(limit=limit)
        if part not in PARTS:
            raise PelError(f'no part "{part}" of the names', f"choose one of {', '.join(PARTS)}")
        self.kb = kb
        self.seed = seed
        self.part = part

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[Document]]]:
        yield self.kb, self._names(KnowledgeBase.open(self.kb))

    def _names(self, kb: KnowledgeBase) -> Iterator[Document]:
        rng = np.random.default_rng(self.seed)
        numbers = rng.permutation(kb.numbers())
        for first in range(0, len(numbers), CHUNK):
            pairs = [
                (alias, entity.concept_id)
                for entity in kb.entities(numbers[first : first + CHUNK])
                for alias in entity.names[1:]
                if self.part in ("all", _part_of(alias))
            ]
            for place in rng.permutation(len(pairs)):
                name, id = pairs[place]
                yield Document(name, id, (mention_at(name, 0, len(name), "NAME", (id,)),))


def _part_of(name: str) -> str:
    return "train" if name_hash(normalised(name)) % _ONE_IN else "dev"
