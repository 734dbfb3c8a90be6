"""What the encoders read: mentions in context and entities, as token ids (PEL, appendix A).

    mention:  [CLS] left [Ms] mention [Me] right [SEP]
    entity:   [CLS] title [SEP] types [SEP] description [SEP]
    pair:     [CLS] left [Ms] mention [Me] right [SEP] title [SEP] types [SEP] description [SEP]

Knows tokenizers and numpy; nothing of spaCy, torch or the knowledge base.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from ..errors import PelError

CLS, SEP, PAD, UNK = "[CLS]", "[SEP]", "[PAD]", "[UNK]"
MENTION_START, MENTION_END = "[Ms]", "[Me]"


class TokenIds(NamedTuple):
    """One input. ``ids``: int32 [t]. ``start:end``: the tokens of the mention or the title; of a
    pair, the entity's side."""

    ids: np.ndarray
    start: int
    end: int


class MentionInContext(NamedTuple):
    """Character offsets of a mention in the text of its document."""

    text: str
    start: int
    end: int


class EntityText(NamedTuple):
    """What an entity's proxy is made from. Empty parts at the end are left out of the input."""

    title: str
    types: str = ""
    description: str = ""


class TokenBatch(NamedTuple):
    """Padded inputs. ``ids``: int64 [n, t]; ``mask``, ``focus``: bool [n, t], true where there is
    a token, and where it stands between its input's start and end."""

    ids: np.ndarray
    mask: np.ndarray
    focus: np.ndarray


class InputBuilder:
    """Turns texts into token ids with one tokenizer and one maximal length a side.

    tokenizer: a BERT tokenizer that has [CLS], [SEP], [PAD] and the markers [Ms], [Me].
    mention_length, entity_length: the most tokens of an input, special tokens counted.
    position_limit: the most tokens that the encoder has positions for.
    Raises PelError if the tokenizer lacks a special token.
    """

    def __init__(
        self, tokenizer: Tokenizer, mention_length: int, entity_length: int, position_limit: int
    ):
        # "[Me]" in a text (a methyl group, say) is no marker.
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer
        self.mention_length = min(mention_length, position_limit)
        self.entity_length = min(entity_length, position_limit)
        self.position_limit = position_limit
        ids = {t: tokenizer.token_to_id(t) for t in (CLS, SEP, PAD, MENTION_START, MENTION_END)}
        for token, id in ids.items():
            if id is None:
                raise PelError(
                    f"the encoder's tokenizer has no {token} token",
                    "choose an encoder of BERT architecture",
                )
        self._cls, self._sep, self.pad_id, self._start, self._end = ids.values()

    def mentions(self, mentions: Sequence[MentionInContext]) -> list[TokenIds]:
        """``[CLS] left [Ms] mention [Me] right [SEP]``, in the order given.

        The mention is never truncated (but for the encoder's last position); the context shares
        what is left of ``mention_length`` evenly, and what one side does not use goes to the other.
        A text is tokenised once for all its mentions, split where a mention begins or ends; again
        for a mention that splits a word, since the others are to see that word whole.
        """
        keys = [_tokenised_with(mention) for mention in mentions]
        boundaries: dict[Hashable, set[int]] = {}
        for key, (text, start, end) in zip(keys, mentions):
            boundaries.setdefault(key, {0, len(text)}).update((start, end))
        texts = {key: mention.text for key, mention in zip(keys, mentions)}
        tokenised = self._tokenise_at(texts, boundaries)
        return [self._mention(*tokenised[key], m) for key, m in zip(keys, mentions)]

    def _tokenise_at(
        self, texts: dict[Hashable, str], boundaries: dict[Hashable, set[int]]
    ) -> dict[Hashable, tuple[np.ndarray, dict[int, int]]]:
        """For each text its token ids, and the index of the first token after each boundary."""
        cuts = {key: sorted(places) for key, places in boundaries.items()}
        segments = [texts[key][a:b] for key, cut in cuts.items() for a, b in zip(cut, cut[1:])]
        encoded = iter(self.tokenizer.encode_batch_fast(segments, add_special_tokens=False))
        result = {}
        for key, cut in cuts.items():
            ids: list[int] = []
            token_at = {0: 0}
            for boundary in cut[1:]:
                ids.extend(next(encoded).ids)
                token_at[boundary] = len(ids)
            result[key] = (np.array(ids, dtype=np.int32), token_at)
        return result

    def _mention(
        self, ids: np.ndarray, token_at: dict[int, int], mention: MentionInContext
    ) -> TokenIds:
        first, last = token_at[mention.start], token_at[mention.end]
        last = min(last, first + self.position_limit - 4)
        room = max(0, self.mention_length - 4 - (last - first))
        n_left, n_right = first, len(ids) - last
        left = min(n_left, max(room // 2, room - n_right))
        right = min(n_right, room - left)
        parts = (
            [self._cls], ids[first - left : first], [self._start],
            ids[first:last], [self._end], ids[last : last + right], [self._sep],
        )  # fmt: skip
        return TokenIds(np.concatenate(parts).astype(np.int32), left + 2, left + 2 + last - first)

    def entities(self, entities: Sequence[EntityText]) -> list[TokenIds]:
        """``[CLS] title [SEP] types [SEP] description [SEP]``, cut at ``entity_length``."""
        parts = [part for entity in entities for part in entity]
        encoded = iter(self.tokenizer.encode_batch_fast(parts, add_special_tokens=False))
        return [self._entity([next(encoded).ids for _ in EntityText._fields]) for _ in entities]

    def _entity(self, parts: list[list[int]]) -> TokenIds:
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        ids = [self._cls]
        for part in parts:
            ids.extend(part)
            ids.append(self._sep)
        if len(ids) > self.entity_length:
            ids[self.entity_length - 1 :] = [self._sep]
        end = min(1 + len(parts[0]), self.entity_length - 1)
        return TokenIds(np.array(ids, dtype=np.int32), 1, end)


class PairBuilder:
    """Turns a mention and an entity into one input for the cross-encoder.

    tokenizer, position_limit: as of ``InputBuilder``.
    length: the most tokens of a pair, special tokens counted. The mention's side, with its [CLS]
        and [SEP], takes at most half of them, and is the same for all entities; the entity's side
        takes what is left, and is cut at its end.
    """

    def __init__(self, tokenizer: Tokenizer, length: int, position_limit: int):
        self.length = min(length, position_limit)
        half = self.length // 2
        self._mentions = InputBuilder(tokenizer, half, half, half)
        self._entities = InputBuilder(tokenizer, self.length, self.length, self.length)

    def mentions(self, mentions: Sequence[MentionInContext]) -> list[TokenIds]:
        """The mentions' sides of pairs, in the order given."""
        return self._mentions.mentions(mentions)

    def entities(self, entities: Sequence[EntityText]) -> list[TokenIds]:
        """The entities' sides of pairs, in the order given; ``pair`` takes their [CLS] off."""
        return self._entities.entities(entities)

    def pair(self, mention: TokenIds, entity: TokenIds) -> TokenIds:
        """``[CLS] left [Ms] mention [Me] right [SEP] title [SEP] types [SEP] description [SEP]``.

        Its start and end are those of the entity's side.
        """
        start = len(mention.ids)
        ids = np.concatenate([mention.ids, entity.ids[1 : 1 + self.length - start]])
        ids[-1] = entity.ids[-1]  # [SEP], also where the entity's side is cut
        return TokenIds(ids, start, len(ids))


def _tokenised_with(mention: MentionInContext) -> Hashable:
    """What mentions must have in common to be tokenised together: the text, or nothing."""
    text, start, end = mention
    splits_a_word = any(text[i - 1 : i + 1].isalnum() for i in (start, end) if 0 < i < len(text))
    return mention if splits_a_word else text


def pad(inputs: Sequence[TokenIds], pad_id: int, least: int = 0) -> TokenBatch:
    """The inputs as one padded batch, of at least ``least`` tokens in all."""
    ids, mask = pad_ids([x.ids for x in inputs], pad_id, least)
    position = np.arange(mask.shape[1])
    starts, ends = np.array([(x.start, x.end) for x in inputs]).T
    # A mention of no token of its own (blanks, say) is read from its whole input.
    focus = (position >= starts[:, None]) & (position < ends[:, None])
    focus[starts == ends] = mask[starts == ends]
    return TokenBatch(ids, mask, focus)


def pad_ids(ids: Sequence[np.ndarray], pad_id: int, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids, int64 [n, t], and bool [n, t], true where there is a token: see ``TokenBatch``."""
    lengths = np.array([len(x) for x in ids])
    mask = np.arange(max(lengths.max(), -(-least // len(ids)))) < lengths[:, None]
    padded = np.full(mask.shape, pad_id, dtype=np.int64)
    padded[mask] = np.concatenate(ids)
    return padded, mask


def batches_by_length(inputs: Sequence[TokenIds], max_tokens: int) -> list[np.ndarray]:
    """Indices of the inputs, grouped by length so that little is padding.

    A group holds at most ``max_tokens`` tokens, padding counted, and at least one input.
    """
    order = np.array(sorted(range(len(inputs)), key=lambda i: len(inputs[i].ids)), dtype=np.int64)
    groups, first = [], 0
    for position in range(len(order)):
        longest = len(inputs[order[position]].ids)
        if position > first and (position - first + 1) * longest > max_tokens:
            groups.append(order[first:position])
            first = position
    if len(order):
        groups.append(order[first:])
    return groups


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """A lower-casing WordPiece tokenizer learned from the texts, with the special tokens.

    The same texts give the same tokenizer, in any process.
    """
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    normalizer = normalizers.BertNormalizer(lowercase=True)
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for text in texts:
        normalized = normalizer.normalize_str(text)
        words.update(word for word, _ in pre_tokenizer.pre_tokenize_str(normalized))
    special = [PAD, UNK, CLS, SEP, MENTION_START, MENTION_END]
    # The trainer numbers the inner letters as a hash map orders them, which differs from process to
    # process, and breaks ties by number. Given among its special tokens they keep their places.
    inner = sorted({f"##{letter}" for word in words for letter in word[1:]})
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=[*special, *inner], show_progress=False
    )
    draft = Tokenizer(models.WordPiece(unk_token=UNK))
    draft.train_from_iterator(words.elements(), trainer)

    tokenizer = Tokenizer(models.WordPiece(draft.get_vocab(), unk_token=UNK))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(special)
    return tokenizer
