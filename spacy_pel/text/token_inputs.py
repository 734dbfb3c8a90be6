"""The inputs of all encoders: word pieces of texts, and token ids in padded batches."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from tokenizers import Tokenizer

from ..errors import PelError

CLS, SEP, PAD, UNK = "[CLS]", "[SEP]", "[PAD]", "[UNK]"
MASK = "[MASK]"
MENTION_START, MENTION_END = "[Ms]", "[Me]"
Key = TypeVar("Key", bound=Hashable)

# The maximum number of tokens of a forward pass over texts on one core. The last bits of a vector depend
# on what else is in its pass, so this number is the same for any number of threads.
CORE_TOKENS = 1024
_FLAGGING = Lock()


class TokenizedText(NamedTuple):
    """A text that was tokenised in parts."""

    ids: np.ndarray  # int32 [t]
    token_at: dict[int, int]  # the number of tokens before each offset at which the text was split


class WordPieces:
    """A BERT tokenizer and the ids of its special tokens, which include [Ms] and [Me].

    Raises:
        PelError: The tokenizer lacks one of the special tokens.
    """

    def __init__(self, tokenizer: Tokenizer):
        # "[Me]" in a text, such as a methyl group, is no marker. Several readers may share a tokenizer,
        # which refuses changes while another thread uses it. So the flag is set once.
        with _FLAGGING:
            if not tokenizer.encode_special_tokens:
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
        self.mask = self.unknown if mask is None else mask  # ``train_tokenizer`` makes none

    def __reduce__(self) -> tuple[Any, ...]:
        return WordPieces, (self._tokenizer,)  # a pickled tokenizer loses the flag

    def tokenize(self, texts: Iterable[str]) -> Iterator[list[int]]:
        """Return the token ids of each text, without special tokens."""
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return (text.ids for text in encoded)

    def tokenize_split(
        self, texts: Mapping[Key, tuple[str, Iterable[int]]]
    ) -> dict[Key, TokenizedText]:
        """Tokenise texts that are split at character offsets, and return them by the same keys."""
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
    """Train a lower-casing WordPiece tokenizer with the special tokens, reproducibly.

    It has at most ``vocab_size`` word pieces, unless there are more distinct characters.
    """
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    normalizer = normalizers.BertNormalizer(lowercase=True)
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for text in texts:
        normalized = normalizer.normalize_str(text)
        words.update(word for word, _ in pre_tokenizer.pre_tokenize_str(normalized))
    special = [PAD, UNK, CLS, SEP, MENTION_START, MENTION_END]
    # The trainer numbers the inner characters in the order of a hash map, which differs between
    # processes, and breaks ties by number. As special tokens they keep their order.
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


class TokenIds(NamedTuple):
    """The tokens of a text."""

    ids: np.ndarray  # int32 [t]
    start: int  # the first token of the mention, the title, or the entity's side of a pair
    end: int  # the token after its last


class Window(NamedTuple):
    """One sequence of tokens: a text with one output, or a part of a document with several."""

    ids: np.ndarray  # int32 [t]
    outputs: np.ndarray  # int64 [m], the positions of its outputs among those of all windows
    # Features of each token, [t, ...], by the names of the arguments of the encoder's ``forward``.
    # "perturbation", float32 [t, d], is added to the input embeddings.
    known: Mapping[str, np.ndarray]
    # int64 [m, 2], the first token of each mention and the one after its last; None if the outputs are
    # not of mentions.
    spans: np.ndarray | None = None


class EncoderInputs(NamedTuple):
    """The inputs of a BERT encoder."""

    windows: Sequence[Window]
    # The maximum number of tokens of a forward pass on one core; a longer window is a pass by itself.
    # With 1 each window is, so that its outputs do not depend on other documents.
    core_tokens: int = 1

    def padded(self, group: np.ndarray, pad_id: int, min_tokens: int) -> dict[str, np.ndarray]:
        """Pad a group of windows to one length, and to at least ``min_tokens`` tokens together.

        Returns:
            The arguments of the encoder by name: "ids", int64 [n, t]; "mask", bool [n, t], true for
            tokens; features of tokens, [n, t, ...], 0 for padding; and "spans", which count the tokens
            of all padded windows in order.
        """
        windows = [self.windows[i] for i in group]
        lengths = np.array([len(window.ids) for window in windows])
        mask = np.arange(max(lengths.max(), -(-min_tokens // len(windows)))) < lengths[:, None]
        batch = {"ids": np.full(mask.shape, pad_id, dtype=np.int64), "mask": mask}
        batch["ids"][mask] = np.concatenate([window.ids for window in windows])
        for name in windows[0].known:
            known = np.concatenate([window.known[name] for window in windows])
            batch[name] = np.zeros((*mask.shape, *known.shape[1:]), dtype=known.dtype)
            batch[name][mask] = known
        if windows[0].spans is not None:
            spans = [row * mask.shape[1] + window.spans for row, window in enumerate(windows)]
            batch["spans"] = np.concatenate(spans)
        return batch


def text_inputs(
    tokens: Sequence[TokenIds], perturbations: Sequence[np.ndarray] | None = None
) -> EncoderInputs:
    """Return the inputs for texts with one output each.

    "focus" marks the tokens from start to end, or all tokens if there are none. The backward pass
    returns the gradient with respect to each perturbation.
    """
    windows = []
    for place, text in enumerate(tokens):
        known = {"focus": np.zeros(len(text.ids), dtype=bool)}
        known["focus"][slice(*text[1:]) if text.start < text.end else slice(None)] = True
        if perturbations is not None:
            known["perturbation"] = perturbations[place]
        windows.append(Window(text.ids, np.array([place]), known))
    return EncoderInputs(windows, CORE_TOKENS)
