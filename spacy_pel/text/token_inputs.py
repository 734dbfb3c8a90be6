"""Inputs of the encoders: the word pieces of texts, and token ids in batches, whatever is read."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from ..errors import PelError

CLS, SEP, PAD, UNK = "[CLS]", "[SEP]", "[PAD]", "[UNK]"
MASK = "[MASK]"
MENTION_START, MENTION_END = "[Ms]", "[Me]"


# The most tokens of a pass over texts where each core has passes of its own. The last bits of a vector
# depend on what else is in its pass, so it is the same for any number of threads.
CORE_TOKENS = 1024
_FLAGGING = Lock()


class TokenizedText(NamedTuple):
    """A text that was tokenised in pieces."""

    ids: np.ndarray  # int32 [t]
    token_at: dict[int, int]  # from each offset of a split to the number of tokens before it


class WordPieces:
    """A BERT tokenizer, and the ids of its special tokens, [Ms] and [Me] too; PelError if it lacks one."""

    def __init__(self, tokenizer: Tokenizer):
        # "[Me]" in a text (a methyl group, say) is no marker. Several readers may share a tokenizer,
        # and it refuses changes while another thread tokenizes. So the flag is set once.
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
        self.mask = self.unknown if mask is None else mask  # an encoder from scratch has none

    def __reduce__(self) -> tuple[Any, ...]:
        return WordPieces, (self._tokenizer,)  # a pickled tokenizer loses the flag

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


class TokenIds(NamedTuple):
    """The tokens of a text."""

    ids: np.ndarray  # int32 [t]
    start: int  # the first token of the mention, of the title, or of the entity's side of a pair
    end: int  # the token after its last


class Window(NamedTuple):
    """What is read at once: a text with one output, or a piece of a document with several."""

    ids: np.ndarray  # int32 [t]
    outputs: np.ndarray  # int64 [m], the places of its outputs among those of all windows
    # What is known of each token, [t, ...], by the names of the arguments of the encoder's ``forward``.
    # "perturbation", float32 [t, d], is added to the input embeddings.
    known: Mapping[str, np.ndarray]
    # int64 [m, 2], the first token of each mention and the one after its last, if there is an output
    # for each mention; else None.
    spans: np.ndarray | None = None


class EncoderInputs(NamedTuple):
    """What a tower around a BERT reads."""

    windows: Sequence[Window]
    # The most tokens of a pass in inference on a CPU, where each core has passes of its own. A longer
    # window has its own. With 1 all have: the outputs are the same whatever other documents are read.
    core_tokens: int = 1

    def padded(self, group: np.ndarray, pad_id: int, least: int) -> dict[str, np.ndarray]:
        """The windows at the places of a group in one length, with ``least`` tokens together.

        They are given by the names of the encoder's arguments: "ids", int64 [n, t], "mask", bool [n, t],
        true where there is a token, what is known of each token, [n, t, ...], 0 where there is none, and
        "spans", counted through the padded windows one after the other.
        """
        windows = [self.windows[i] for i in group]
        lengths = np.array([len(window.ids) for window in windows])
        mask = np.arange(max(lengths.max(), -(-least // len(windows)))) < lengths[:, None]
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
    """Texts of one output each. "focus" is on the tokens from start to end, or on all if there are none.

    With perturbations the backward pass gives the gradient with respect to each.
    """
    windows = []
    for place, text in enumerate(tokens):
        known = {"focus": np.zeros(len(text.ids), dtype=bool)}
        known["focus"][slice(*text[1:]) if text.start < text.end else slice(None)] = True
        if perturbations is not None:
            known["perturbation"] = perturbations[place]
        windows.append(Window(text.ids, np.array([place]), known))
    return EncoderInputs(windows, CORE_TOKENS)
