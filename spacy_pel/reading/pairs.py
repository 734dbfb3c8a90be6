"""Pairs of a mention and an entity as token ids, for the cross-encoder (PEL, appendix B).

pair:     [CLS] left [Ms] mention [Me] right [SEP] title [SEP] types [SEP] description [SEP]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from .entity_texts import EntityReader, EntityText
from .marked_texts import MarkedTextReader
from .mention import MentionInContext
from .text_inputs import TokenIds


class PairReader:
    """Turns a mention and an entity into one input.

    The mention's side, with its [CLS] and [SEP], takes at most half of the tokens. It is the same
    for all entities. The entity's side takes the rest, and is cut at its end.

    Args:
        tokenizer: The encoder's tokenizer (``WordPieces``).
        length: The most tokens of a pair, special tokens included.
        position_limit: The most tokens that the encoder has positions for.
    """

    def __init__(self, tokenizer: Tokenizer, length: int, position_limit: int):
        self.length = min(length, position_limit)
        half = self.length // 2
        self._mentions = MarkedTextReader(tokenizer, half, half)
        self._entities = EntityReader(tokenizer, self.length, self.length)

    def mentions(self, mentions: Sequence[MentionInContext]) -> list[TokenIds]:
        """The mentions' sides of pairs."""
        return self._mentions.tokens(mentions)

    def entities(self, entities: Sequence[EntityText]) -> list[TokenIds]:
        """The entities' sides of pairs; ``pair`` takes their [CLS] off."""
        return self._entities.tokens(entities)

    def pair(self, mention: TokenIds, entity: TokenIds) -> TokenIds:
        """The two sides as one input, whose start and end are those of the entity's side."""
        start = len(mention.ids)
        ids = np.concatenate([mention.ids, entity.ids[1 : 1 + self.length - start]])
        ids[-1] = entity.ids[-1]  # [SEP], also where the entity's side is cut
        return TokenIds(ids, start, len(ids))
