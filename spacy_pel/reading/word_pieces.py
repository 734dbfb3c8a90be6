"""The word pieces of texts: a tokenizer with the special tokens that all readers need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from ..errors import PelError

CLS, SEP, PAD, UNK = "[CLS]", "[SEP]", "[PAD]", "[UNK]"
MASK = "[MASK]"
MENTION_START, MENTION_END = "[Ms]", "[Me]"


class TokenizedText(NamedTuple):
    """A text that was tokenised in pieces."""

    ids: np.ndarray  # int32 [t]
    token_at: dict[int, int]  # from each offset of a split to the number of tokens before it


class WordPieces:
    """A BERT tokenizer, and the ids of its special tokens, [Ms] and [Me] too; PelError if it lacks one."""

    def __init__(self, tokenizer: Tokenizer):
        # "[Me]" in a text (a methyl group, say) is no marker.
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        ids = {t: tokenizer.token_to_id(t) for t in (CLS, SEP, PAD, MENTION_START, MENTION_END)}
        for token, id in ids.items():
            if id is None:
                problem = f"the encoder's tokenizer has no {token} token"
                raise PelError(problem, "choose an encoder of BERT architecture")
        self.cls, self.sep, self.pad, self.mention_start, self.mention_end = ids.values()
        self.unknown = tokenizer.token_to_id(UNK)
        mask = tokenizer.token_to_id(MASK)
        self.mask = self.unknown if mask is None else mask  # an encoder from scratch has none

    def tokenize(self, texts: Iterable[str]) -> Iterator[list[int]]:
        """The token ids of each text, without special tokens."""
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return (text.ids for text in encoded)

    def tokenize_split(
        self, texts: Mapping[Hashable, tuple[str, Iterable[int]]]
    ) -> dict[Hashable, TokenizedText]:
        """Tokenise texts, by keys of any kind, each of which is split at some character offsets."""
        cuts = {key: sorted({0, len(text), *places}) for key, (text, places) in texts.items()}
        pieces = [texts[key][0][a:b] for key, cut in cuts.items() for a, b in zip(cut, cut[1:])]
        tokenized = self.tokenize(pieces)
        result = {}
        for key, cut in cuts.items():
            ids: list[int] = []
            token_at = {0: 0}
            for offset in cut[1:]:
                ids.extend(next(tokenized))
                token_at[offset] = len(ids)
            result[key] = TokenizedText(np.array(ids, dtype=np.int32), token_at)
        return result


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn a lower-casing WordPiece tokenizer with the special tokens, the same in any process.

    It has at most ``vocab_size`` word pieces, unless the alphabet alone has more.
    """
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    normalizer = normalizers.BertNormalizer(lowercase=True)
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for text in texts:
        normalized = normalizer.normalize_str(text)
        words.update(word for word, _ in pre_tokenizer.pre_tokenize_str(normalized))
    special = [PAD, UNK, CLS, SEP, MENTION_START, MENTION_END]
    # The trainer numbers the inner letters in the order of a hash map, which differs from process to
    # process, and breaks ties by number. As special tokens they keep their places.
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
