"""The names of a knowledge base as a corpus: to align them before training on text.

Each alias is a document, and the whole of it a mention of its entity. Trained on these with
``name_dropout = 1.0``, so that the proxy of a mention is its entity's canonical name, an encoder
learns what the names of one thing have in common (the idea of SapBERT, Liu et al. 2021).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..documents.document import Document, mention_at
from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.entity import Entity
from .corpus import Corpus

# Entities whose names are held and shuffled at a time: many batches of them.
CHUNK = 4096


def make_name_corpus(kb: str, limit: int = 0, seed: int = 0) -> NameCorpus:
    """Return the names of a KB as a corpus, for a ``[corpora]`` block of a config.

    Args:
        kb: the folder of the KB.
        limit: names taken; 0 takes all.
        seed: decides their order.
    """
    return NameCorpus(kb, limit=limit, seed=seed)


class NameCorpus(Corpus):
    """Examples of the aliases of a KB: each of them once, in an order that only the seed decides.

    Entities are drawn in random order, and the aliases of some thousands of them at a time are
    shuffled. Memory grows with the KB by 8 bytes an entity. Set ``max_epochs`` to -1, or spaCy
    holds all examples.

    Args:
        kb: the folder of the KB.
        limit: names taken; 0 takes all.
        seed: decides their order.
    """

    def __init__(self, kb: str, *, limit: int = 0, seed: int = 0) -> None:
        super().__init__(limit=limit)
        self.kb = kb
        self.seed = seed

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[Document]]]:
        """See ``Corpus``."""
        yield self.kb, self._names(KnowledgeBase.open(self.kb))

    def _names(self, kb: KnowledgeBase) -> Iterator[Document]:
        rng = np.random.default_rng(self.seed)
        numbers = rng.permutation(kb.numbers())
        for first in range(0, len(numbers), CHUNK):
            pairs = [
                (alias, entity)
                for entity in kb.entities(numbers[first : first + CHUNK])
                for alias in entity.names[1:]
            ]
            for place in rng.permutation(len(pairs)):
                yield _document(*pairs[place])


def _document(name: str, entity: Entity) -> Document:
    mention = mention_at(name, 0, len(name), "NAME", (entity.concept_id,))
    return Document(name, entity.concept_id, (mention,))
