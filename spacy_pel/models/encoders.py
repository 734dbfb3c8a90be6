"""The torch modules of the towers: a BERT with perturbable input embeddings, and poolings of its states."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from typing_extensions import Self

from ..errors import PelError
from .bert import Bert, BertLayer, architecture, as_bert, has_fast_bfloat16, last_hidden_states

if TYPE_CHECKING:
    from .onnx_states import OnnxStates

# The number of tokens from which torch's fused attention is no slower in training than plain attention
# (the same time at 128, 85 % of the time at 256, 75 % at 512).
_LONG = 128


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Compute with one thread of torch within the block.

    The kernels of small models are short, and threads that share them mostly wait. With two threads a
    sentence takes twice as long. Beside another program, fitting a ranking takes minutes, not seconds.
    """
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


class BertEncoder(nn.Module):
    """Base class of the encoders: a BERT, its tokenizer and its precision.

    Args:
        mixed_precision: Compute in bfloat16 where torch considers it safe. This is three times as fast
            on a processor with bfloat16 instructions, and has no effect on others.

    Attributes:
        is_loaded: Whether the encoder has weights. ``load`` sets this and the following attributes.
        transformer: The BERT.
        tokenizer: Its tokenizer.
        width: The length of the embeddings and the states.
        position_limit: The maximum number of tokens of an input.
        n_outputs: The number of values per input.
        computed_by: Computes the hidden states in place of torch in inference
            (``onnx_states.OnnxStates``). It is set for the duration of a call.
        known_fingerprint: The fingerprint of the weights that were loaded (``retrievers``), and the versions
            of these weights; "" once the encoder is trained.
    """

    transformer: Bert
    tokenizer: Tokenizer
    width: int
    position_limit: int
    n_outputs: int
    is_loaded = False

    def __init__(self, *, mixed_precision: bool):
        super().__init__()
        self.mixed_precision = mixed_precision
        self.computed_by: OnnxStates | None = None
        self.known_fingerprint: tuple[str, list[tuple[int, int]]] = ("", [])

    def train(self, mode: bool = True) -> Self:
        """Set the training mode. An optimizer may change weights without torch noticing."""
        if mode:
            self.known_fingerprint = "", []
        return super().train(mode)

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        """Set a BERT, of Hugging Face or of this package, with its weights, and its tokenizer."""
        self.transformer = as_bert(transformer)
        self.tokenizer = tokenizer
        self.width = int(self.transformer.config.hidden_size)
        self.position_limit = int(self.transformer.config.max_position_embeddings)
        self.is_loaded = True

    def hidden_states(
        self,
        ids: Tensor,
        mask: Tensor,
        perturbation: Tensor,
        segments: Tensor | None = None,
        needed: Tensor | None = None,
    ) -> Tensor:
        """Return the last hidden states of n inputs, padded to t tokens: float32 [n, t, d].

        Args:
            ids: int64 [n, t].
            mask: bool [n, t], false for padding.
            perturbation: float32 [n, t, d], or zeros [1, 1, 1] for none. It is added to the composite
                input embeddings (word + position + segment; PEL, Eq. 6 and 7). Its gradient is the
                gradient by these embeddings.
            segments: int64 [n, t], token types; None for zeros.
            needed: bool [n, t], the tokens whose states are needed; other states are 0. None for all.
        """
        if self.computed_by is not None and not self.training:
            return self.computed_by(ids, mask, segments, needed, perturbation)
        device = ids.device.type
        in_bfloat16 = self.mixed_precision and has_fast_bfloat16(device)
        # Torch's default attention is the fastest except in training with short inputs on a CPU, where
        # the backward pass of its fused attention takes twice the time of plain attention.
        is_short = self.training and device == "cpu" and ids.shape[1] < _LONG
        attention = sdpa_kernel(SDPBackend.MATH) if is_short else nullcontext()
        with torch.autocast(device, torch.bfloat16, enabled=in_bfloat16), attention:
            embedded = self.transformer.embeddings(ids, perturbation, segments)
            layers = self.transformer.encoder.layer
            return last_hidden_states(layers, embedded, mask, needed).float()

    def description(self) -> dict[str, str]:
        """Return configuration and tokenizer as JSON strings; {} before ``load``."""
        if not self.is_loaded:
            return {}
        config = json.dumps(architecture(self.transformer))
        return {"config": config, "tokenizer": self.tokenizer.to_str()}

    def weights(self) -> dict[str, Tensor]:
        """Return the weights; those of the transformer have Hugging Face's names."""
        return {_short(name): weight.float() for name, weight in self.state_dict().items()}

    def restore(self, description: dict[str, str], weights: dict[str, Tensor]) -> None:
        """Restore the encoder from ``description`` and ``weights``, without a network.

        Raises:
            RuntimeError: The weights are of another encoder.
        """
        transformer = Bert(json.loads(description["config"]))
        self.load(transformer, Tokenizer.from_str(description["tokenizer"]))
        names = {_short(name): name for name in self.state_dict()}
        self.load_state_dict({names.get(k, k): v for k, v in weights.items()}, assign=True)


def _short(name: str) -> str:
    return name.removeprefix("transformer.")


class TextEncoder(BertEncoder):
    """A tower of the bi-encoder: token ids -> vector (PEL, section 5.2).

    It also encodes windows of documents, and pools the vector of each mention from the states of its tokens.

    Args:
        pooling: The tokens whose states are averaged. "mean": all tokens, as in the paper. "focus": the
            tokens of the mention or of the entity's title. "both": the sum of the two means, each of
            length 1. "cls": the first token, [CLS], as in KRISSBERT and ArboEL.
        normalize: Return vectors of length 1, so that their inner product is the cosine.
        mixed_precision: See ``BertEncoder``.
        n_numbers: Keep the first n dimensions of the pooled states; None: all. Training moves the
            information into these (Kusupati et al. 2022, "Matryoshka").
    """

    def __init__(
        self,
        *,
        pooling: str,
        normalize: bool,
        mixed_precision: bool,
        n_numbers: int | None = None,
    ):
        super().__init__(mixed_precision=mixed_precision)
        self.pooling = pooling
        self.normalize = normalize
        self.n_numbers = n_numbers

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        """Set the BERT; PelError if its states are shorter than the vectors."""
        width = as_bert(transformer).config.hidden_size
        if self.n_numbers is not None and self.n_numbers > width:
            raise PelError(
                f"vectors of {self.n_numbers} numbers of an encoder that has {width}",
                f'set "n_numbers" to {width} or less',
            )
        super().load(transformer, tokenizer)
        self.n_outputs = width if self.n_numbers is None else self.n_numbers

    def forward(
        self,
        ids: Tensor,
        mask: Tensor,
        focus: Tensor,
        perturbation: Tensor,
        spans: Tensor | None = None,
    ) -> Tensor:
        """Encode n texts as float32 [n, d], or the m mentions of n windows as float32 [m, d].

        Args:
            ids, mask, perturbation: Those of ``hidden_states``.
            focus: bool [n, t], the tokens of the mention or the title. In windows, the tokens of all
                mentions; they become BERT's second segment.
            spans: For windows only: int64 [m, 2], the first token of each mention and the token after
                its last, counted through all padded windows.
        """
        if spans is not None:
            of_mentions = torch.zeros_like(mask)
            of_mentions.view(-1)[_tokens_of(spans)[0]] = True
            hidden = self.hidden_states(ids, mask, perturbation, focus.long(), of_mentions)
            pooled = mean_of_spans(hidden.flatten(0, 1), spans)
        else:
            first = torch.zeros_like(mask)
            first[:, 0] = True
            needed = {"focus": focus, "cls": first}.get(self.pooling)
            hidden = self.hidden_states(ids, mask, perturbation, needed=needed)
            if self.pooling == "both":
                of_all, of_focus = (
                    nn.functional.normalize(mean_over(hidden, tokens), dim=-1)
                    for tokens in (mask, focus)
                )
                pooled = of_all + of_focus
            elif self.pooling == "cls":
                pooled = hidden[:, 0]
            else:
                pooled = mean_over(hidden, mask if self.pooling == "mean" else focus)
        vectors = pooled[:, : self.n_numbers]
        return nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors


def mean_over(hidden: Tensor, mask: Tensor) -> Tensor:
    """Average the tokens of each input: float [n, t, d] and bool [n, t] -> [n, d].

    The mask has at least one token of each input.
    """
    weight = mask.to(hidden.dtype)
    return (hidden * weight.unsqueeze(-1)).sum(1) / weight.sum(1, keepdim=True)


def mean_of_spans(hidden: Tensor, spans: Tensor) -> Tensor:
    """Average the states of tokens, float [t, d], over each span: float [m, d].

    spans: int64 [m, 2], the first token of each span and the token after its last; none is empty.
    """
    tokens, firsts = _tokens_of(spans)
    return nn.functional.embedding_bag(tokens, hidden, firsts, mode="mean")


def _tokens_of(spans: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tokens of spans, int64 [p], and the position of each span's first token, int64 [m]."""
    starts, ends = spans.unbind(1)
    lengths = ends - starts
    firsts = lengths.cumsum(0) - lengths
    tokens = torch.arange(int(lengths.sum()), device=spans.device)
    return tokens + (starts - firsts).repeat_interleave(lengths), firsts


class PairScorer(BertEncoder):
    """The cross-encoder: token ids of a pair -> score (PEL, appendix B).

    The score is a linear layer over the mean of all tokens of the pair. It has no bias, which would be the
    same for all candidates of a mention.
    """

    n_outputs = 1
    score: nn.Linear

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        super().load(transformer, tokenizer)
        self.score = nn.Linear(self.width, 1, bias=False)

    def forward(self, ids: Tensor, mask: Tensor, focus: Tensor, perturbation: Tensor) -> Tensor:
        """Score n pairs as float32 [n, 1].

        Args:
            ids, mask, perturbation: Those of ``hidden_states``.
            focus: bool [n, t], the entity's side of the pair: BERT's second segment, if it has one.
        """
        segments = focus.long() if self.transformer.config.type_vocab_size > 1 else None
        hidden = self.hidden_states(ids, mask, perturbation, segments)
        scores: Tensor = self.score(mean_over(hidden, mask))
        return scores


class Tagger(BertEncoder):
    """A tagger of words: it scores the tags of each word, and also returns the word's state.

    The features of a word (names of a knowledge base at this position, its shape) are embedded and added
    to the input embeddings of its word pieces. The embeddings of word pieces are not trained. A token is a
    word piece or a whole word (``forward``).

    Args:
        n_tags: The number of tags.
        n_features: The number of features of a word.
        mixed_precision: See ``BertEncoder``.
    """

    def __init__(self, *, n_tags: int, n_features: int, mixed_precision: bool):
        super().__init__(mixed_precision=mixed_precision)
        self.n_tags = n_tags
        self.n_features = n_features

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        super().load(transformer, tokenizer)
        self.transformer.embeddings.word_embeddings.requires_grad_(False)
        self.features = nn.Linear(self.n_features, self.width, bias=False)
        nn.init.normal_(self.features.weight, std=0.02)
        self.tags = nn.Linear(self.width, self.n_tags)
        self.n_outputs = self.n_tags + self.width

    def forward(
        self,
        ids: Tensor,
        mask: Tensor,
        firsts: Tensor,
        features: Tensor,
        perturbation: Tensor,
        others: Tensor | None = None,
    ) -> Tensor:
        """Score the words of n windows: float32 [w, n_tags + width], scores followed by states.

        Args:
            ids, mask, perturbation: Those of ``BertEncoder.hidden_states``.
            firsts: bool [n, t], true at the first word piece of each word.
            features: float32 [n, t, f], the features of the word of each word piece.
            others: int64 [n, t, p], the other word pieces of each token that is a word, or padding. Its
                input embedding is the mean of those of its word pieces. None: a token is a word piece.
        """
        added = self.features(features) + perturbation
        if others is not None:
            added = added + self._mean_less_first(ids, others)
        states = self.hidden_states(ids, mask, added, needed=firsts)[firsts]
        return torch.cat([self.tags(states), states], dim=1)

    def _mean_less_first(self, ids: Tensor, others: Tensor) -> Tensor:
        """Return the mean embedding of the word pieces of each word, less that of the first: [n, t, d]."""
        embeddings = self.transformer.embeddings.word_embeddings
        padding = embeddings.padding_idx
        is_split = others[..., 0] != padding
        first = ids[is_split]
        pieces = torch.cat([first[:, None], others[is_split]], dim=1)
        mean = nn.functional.embedding_bag(
            pieces, embeddings.weight, mode="mean", padding_idx=padding
        )
        difference = torch.zeros(*ids.shape, self.width, device=ids.device)
        difference[is_split] = mean.float() - embeddings(first).float()
        return difference


class SpanEncoder(nn.Module):
    """Pool mentions from token states that another component of the pipeline has computed.

    A linear layer maps the mean state of each mention into the space of the entity vectors. A layer of a BERT
    may read the states first: then each token of a mention attends to its whole document.

    Args:
        normalize: Return vectors of length 1.
        mixed_precision: Compute the BERT layer in bfloat16 (``BertEncoder``).

    Attributes:
        computed_by: Computes the BERT layer in place of torch in inference, as that of ``BertEncoder``.
    """

    map: nn.Linear
    n_outputs: int

    def __init__(self, *, normalize: bool, mixed_precision: bool = False):
        super().__init__()
        self.normalize = normalize
        self.mixed_precision = mixed_precision
        self.layer: BertLayer | None = None
        self.computed_by: OnnxStates | None = None

    @property
    def transformer(self) -> BertLayer | None:
        """Return the layer that ``computed_by`` computes; None without one."""
        return self.layer

    def load(self, width: int, n_outputs: int, bert: nn.Module | None = None) -> None:
        """Make the linear layer. It starts as the identity if both widths are equal.

        Args:
            width: The length of the states.
            n_outputs: The length of the vectors.
            bert: A BERT, of Hugging Face or of this package, whose last layer reads the states.

        Raises:
            PelError: The layer reads states of another length.
        """
        if bert is not None:
            source = as_bert(bert)
            if source.config.hidden_size != width:
                raise PelError(
                    f"the layer reads states of length {source.config.hidden_size}, not {width}",
                    "use a layer of the BERT that computes the states",
                )
            layer = self._make_layer(architecture(source))
            layer.load_state_dict(source.encoder.layer[-1].state_dict())
        self.n_outputs = n_outputs
        self.map = nn.Linear(width, n_outputs)
        if width == n_outputs:
            nn.init.eye_(self.map.weight)
        nn.init.zeros_(self.map.bias)

    def _make_layer(self, config: dict[str, Any]) -> BertLayer:
        self._config = config
        self.layer = layer = BertLayer(SimpleNamespace(**config))
        return layer

    def forward(self, states: Tensor, spans: Tensor, lengths: Tensor) -> Tensor:
        """Encode m mentions as float32 [m, d].

        Args:
            states: float [t, w], the states of the tokens of all documents.
            spans: int64 [m, 2], see ``mean_of_spans``.
            lengths: int64 [n], the number of tokens of each document.
        """
        if self.layer is not None:
            needed = torch.zeros(len(states), dtype=torch.bool, device=states.device)
            needed[_tokens_of(spans)[0]] = True
            columns = states, torch.ones_like(needed), needed
            documents = zip(*(torch.split(column, lengths.tolist()) for column in columns))
            if self.computed_by is not None and not self.training:
                states = torch.zeros_like(states)
                firsts = lengths.cumsum(0) - lengths
                for (inputs, _, is_needed), first in zip(documents, firsts):
                    places = is_needed.nonzero()[:, 0]
                    outputs = self.computed_by.of_one(inputs.numpy(), places.numpy())
                    states[first + places] = torch.from_numpy(outputs)
            else:
                device = states.device.type
                in_bfloat16 = self.mixed_precision and has_fast_bfloat16(device)
                with torch.autocast(device, torch.bfloat16, enabled=in_bfloat16):
                    read = [
                        last_hidden_states([self.layer], *(x.unsqueeze(0) for x in document))
                        for document in documents
                    ]
                states = torch.cat(read, dim=1).squeeze(0).float()
        vectors: Tensor = self.map(mean_of_spans(states, spans))
        return nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors

    def description(self) -> dict[str, Any]:
        """Return both widths and the configuration of the layer; {} before ``load``."""
        if "map" not in self._modules:
            return {}
        widths = {"width": self.map.in_features, "n_outputs": self.map.out_features}
        return widths if self.layer is None else {**widths, "layer": self._config}

    def weights(self) -> dict[str, Tensor]:
        """Return the weights by name."""
        return {name: weight.float() for name, weight in self.state_dict().items()}

    def restore(self, description: dict[str, Any], weights: dict[str, Tensor]) -> None:
        """Restore the encoder from ``description`` and ``weights``."""
        self.load(description["width"], description["n_outputs"])
        if "layer" in description:
            self._make_layer(description["layer"])
        self.load_state_dict(weights, assign=True)
