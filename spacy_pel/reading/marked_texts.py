"""Mentions that are marked in texts of their own, and pairs of those and entities (PEL, appendix A, B).

mention:  [CLS] left [Ms] mention [Me] right [SEP]
pair:     [CLS] left [Ms] mention [Me] right [SEP] title [SEP] types [SEP] description [SEP]

A masked mention (see ``training.mention_views``) is read as [MASK].
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from tokenizers import Tokenizer

from .entity_texts import EntityReader
from .mention import MentionInContext
from .text_inputs import TextInputs, TokenIds
from .word_pieces import TokenizedText, WordPieces


class MarkedTextReader:
    """Reads each mention in a text of its own, of ``length`` tokens unless the mention has more."""

    reads_documents = False

    def __init__(self, tokenizer: Tokenizer, length: int, position_limit: int):
        self.length = min(length, position_limit)
        self._position_limit = position_limit
        self._pieces = WordPieces(tokenizer)

    def inputs(self, mentions: Sequence[MentionInContext]) -> TextInputs:
        """One input a mention, in the order of the mentions."""
        return TextInputs(self.tokens(mentions))

    def tokens(self, mentions: Sequence[MentionInContext]) -> list[TokenIds]:
        """The token ids of each mention: ``[CLS] left [Ms] mention [Me] right [SEP]``.

        A mention is cut only if it is longer than the encoder has positions. Both sides of the context
        share the rest of ``length`` evenly. What one side does not use goes to the other.

        A text is tokenised once for all its mentions, split where a mention begins or ends. It is
        tokenised again for a mention that splits a word, as the others need that word whole.
        """
        keys: list[Hashable] = []
        texts: dict[Hashable, tuple[str, set[int]]] = {}
        for mention in mentions:
            text, ends = mention.text, (mention.start, mention.end)
            splits_a_word = any(text[i - 1 : i + 1].isalnum() for i in ends if 0 < i < len(text))
            keys.append(mention if splits_a_word else text)
            texts.setdefault(keys[-1], (text, set()))[1].update(ends)
        tokenized = self._pieces.tokenize_split(texts)
        return [self._marked(tokenized[key], mention) for key, mention in zip(keys, mentions)]

    def _marked(self, text: TokenizedText, mention: MentionInContext) -> TokenIds:
        ids, pieces = text.ids, self._pieces
        first, last = text.token_at[mention.start], text.token_at[mention.end]
        last = min(last, first + self._position_limit - 4)
        room = max(0, self.length - 4 - (last - first))
        n_left, n_right = first, len(ids) - last
        focus = [pieces.mask] if mention.is_masked else ids[first:last]
        left = min(n_left, max(room // 2, room - n_right))
        right = min(n_right, room - left)
        parts = (
            [pieces.cls], ids[first - left : first], [pieces.mention_start],
            focus, [pieces.mention_end], ids[last : last + right], [pieces.sep],
        )  # fmt: skip
        return TokenIds(np.concatenate(parts).astype(np.int32), left + 2, left + 2 + len(focus))


class PairReader:
    """Turns a mention and an entity into one input, for the cross-encoder.

    The mention's side, with its [CLS] and [SEP], takes at most half of the tokens. It is the same
    for all entities. The entity's side takes the rest, and is cut at its end.
    """

    def __init__(self, tokenizer: Tokenizer, length: int, position_limit: int):
        self.length = min(length, position_limit)
        half = self.length // 2
        # These give the token ids of the two sides.
        self.mentions = MarkedTextReader(tokenizer, half, half).tokens
        self.entities = EntityReader(tokenizer, self.length, self.length).tokens

    def pair(self, mention: TokenIds, entity: TokenIds) -> TokenIds:
        """The two sides as one input, whose start and end are those of the entity's side."""
        start = len(mention.ids)
        ids = np.concatenate([mention.ids, entity.ids[1 : 1 + self.length - start]])
        ids[-1] = entity.ids[-1]  # [SEP], also where the entity's side is cut
        return TokenIds(ids, start, len(ids))
