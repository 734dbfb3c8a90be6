"""The torch modules of the towers: a BERT whose input embeddings can be perturbed, and what pools it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from ..errors import PelError
from .bert import Bert, BertLayer, architecture, has_fast_bfloat16, last_hidden_states, own_bert

# The number of tokens from which torch's fused attention is no slower in training than the plain one
# (measured: the same time at 128, 85 % of the time at 256, 75 % at 512).
_LONG = 128


class BertEncoder(nn.Module):
    """Base of the encoders: a BERT, its tokenizer and its precision.

    The transformer and the tokenizer come later (``load``); both are None until then.

    Args:
        mixed_precision: Compute in bfloat16 where torch holds that to be safe. It is three times as
            fast on a processor with bfloat16 instructions, and has no effect on one without.

    Attributes:
        gradient_caching: Keep only the inputs of each batch in training, and compute the batch
            again when its gradient arrives.
        computed_by: Computes the hidden states in place of torch in inference, from ids, mask,
            segments, wanted and perturbation (``onnx_states.OnnxStates``). It is set for the time of a call.
    """

    n_outputs: int  # the number of values that it gives for an input; set by ``load``

    def __init__(self, *, mixed_precision: bool):
        super().__init__()
        self.mixed_precision = mixed_precision
        self.gradient_caching = False
        self.transformer: Bert | None = None
        self.tokenizer: Tokenizer | None = None
        self.computed_by: Callable[..., Tensor] | None = None

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        """Take a BERT, of Hugging Face or of this package, with its weights, and its tokenizer."""
        self.transformer = own_bert(transformer)
        self.tokenizer = tokenizer

    @property
    def width(self) -> int:
        """Length of the embeddings and the states."""
        return self.transformer.config.hidden_size

    @property
    def position_limit(self) -> int:
        """The largest number of tokens of an input."""
        return self.transformer.config.max_position_embeddings

    def hidden_states(
        self,
        ids: Tensor,
        mask: Tensor,
        perturbation: Tensor,
        segments: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """The last hidden states of n inputs, padded to t tokens: float32 [n, t, d].

        Args:
            ids: int64 [n, t].
            mask: bool [n, t], false for padding.
            perturbation: float32 [n, t, d], or zeros [1, 1, 1] for none. It is added to the
                composite input embeddings (word + position + segment; PEL, Eq. 6 and 7), of which
                BERT sums the three. Its gradient is the gradient by them.
            segments: int64 [n, t], token types; None for zeros.
            wanted: bool [n, t], the tokens whose states are needed; the others' are 0. None for all.
        """
        if self.computed_by is not None and not self.training:
            return self.computed_by(ids, mask, segments, wanted, perturbation)
        inputs = ids, mask, perturbation, segments, wanted
        if self.training and self.gradient_caching:
            return checkpoint(self._computed_by_torch, *inputs, use_reentrant=False)
        return self._computed_by_torch(*inputs)

    def _computed_by_torch(self, ids, mask, perturbation, segments, wanted) -> Tensor:
        device = ids.device.type
        in_bfloat16 = self.mixed_precision and has_fast_bfloat16(device)
        # Torch's own choice of attention is the fastest, except in training with short inputs on a
        # CPU: there the backward pass of its fused attention takes twice the time of the plain one.
        is_short = self.training and device == "cpu" and ids.shape[1] < _LONG
        attention = sdpa_kernel(SDPBackend.MATH) if is_short else nullcontext()
        with torch.autocast(device, torch.bfloat16, enabled=in_bfloat16), attention:
            embedded = self.transformer.embeddings(ids, perturbation, segments)
            layers = self.transformer.encoder.layer
            return last_hidden_states(layers, embedded, mask, wanted).float()

    def description(self) -> dict[str, str]:
        """What decides the vectors beside the weights, as JSON by name; {} before ``load``."""
        if self.transformer is None:
            return {}
        config = json.dumps(architecture(self.transformer))
        return {"config": config, "tokenizer": self.tokenizer.to_str()}

    def weights(self) -> dict[str, Tensor]:
        """The weights by name; those of the transformer have Hugging Face's names."""
        return {_short(name): weight.float() for name, weight in self.state_dict().items()}

    def restore(self, description: dict[str, str], weights: dict[str, Tensor]) -> None:
        """Take what ``description`` and ``weights`` gave; it needs no network.

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
    """A tower of the bi-encoder: it turns token ids into a vector (PEL, section 5.2).

    It also reads windows of documents: each of their mentions gets the mean of its tokens' states.

    Args:
        pooling: The tokens of a text whose states are averaged. "mean": all tokens, as in the paper. "focus":
            those of the mention, or of the entity's title. "both": the sum of the two means, each at
            length 1. "cls": the first token, [CLS], as in KRISSBERT and ArboEL.
        normalize: Give vectors of length 1, so that their inner product is the cosine.
        mixed_precision: See ``BertEncoder``.
        n_numbers: How many numbers a vector has: the first ones of the pooled states. None: all.
            Training brings what counts into them (Kusupati et al. 2022, "Matryoshka").
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
        """As of ``BertEncoder``. Raises PelError if its states are shorter than the vectors."""
        width = transformer.config.hidden_size
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
            focus: bool [n, t], the tokens of the mention or the title. In windows they are those of all
                mentions, and BERT's second segment.
            spans: Of windows alone, int64 [m, 2]: the first token of each mention and the one after its
                last, counted through the padded windows one after the other.

        The other arguments are as of ``hidden_states``.
        """
        if spans is not None:
            wanted = torch.zeros_like(mask)
            wanted.view(-1)[_tokens_of(spans)[0]] = True
            hidden = self.hidden_states(ids, mask, perturbation, focus.long(), wanted)
            pooled = mean_of_spans(hidden.flatten(0, 1), spans)
        else:
            first = torch.zeros_like(mask)
            first[:, 0] = True
            wanted = {"focus": focus, "cls": first}.get(self.pooling)
            hidden = self.hidden_states(ids, mask, perturbation, wanted=wanted)
            if self.pooling == "both":
                means = (mean_over(hidden, tokens) for tokens in (mask, focus))
                pooled = sum(nn.functional.normalize(mean, dim=-1) for mean in means)
            elif self.pooling == "cls":
                pooled = hidden[:, 0]
            else:
                pooled = mean_over(hidden, mask if self.pooling == "mean" else focus)
        vectors = pooled[:, : self.n_numbers]
        return nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors


def mean_over(hidden: Tensor, mask: Tensor) -> Tensor:
    """The mean over the tokens of each input: float [n, t, d] and bool [n, t] give [n, d].

    Each input has at least one token in the mask.
    """
    weight = mask.to(hidden.dtype)
    return (hidden * weight.unsqueeze(-1)).sum(1) / weight.sum(1, keepdim=True)


def mean_of_spans(hidden: Tensor, spans: Tensor) -> Tensor:
    """The mean over the tokens of each span, float [m, d], of the states of tokens, float [t, d].

    spans: int64 [m, 2], the first token of each and the one after its last; at least one token.
    """
    tokens, firsts = _tokens_of(spans)
    return nn.functional.embedding_bag(tokens, hidden, firsts, mode="mean")


def _tokens_of(spans: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens of spans, int64 [p], and the place of the first of each span, int64 [m]."""
    starts, ends = spans.unbind(1)
    lengths = ends - starts
    firsts = lengths.cumsum(0) - lengths
    tokens = torch.arange(int(lengths.sum()), device=spans.device)
    return tokens + (starts - firsts).repeat_interleave(lengths), firsts


class PairScorer(BertEncoder):
    """The cross-encoder: it turns the token ids of a pair into a score (PEL, appendix B).

    The score is a linear layer of the mean over all tokens of the pair. The layer has no bias, which
    would be the same for all candidates of a mention. It is None before ``load``.
    """

    n_outputs = 1

    def __init__(self, *, mixed_precision: bool):
        super().__init__(mixed_precision=mixed_precision)
        self.score: nn.Linear | None = None

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        super().load(transformer, tokenizer)
        self.score = nn.Linear(self.width, 1, bias=False)

    def forward(self, ids: Tensor, mask: Tensor, focus: Tensor, perturbation: Tensor) -> Tensor:
        """Score n pairs as float32 [n, 1]; arguments as of ``hidden_states``.

        focus: bool [n, t], the entity's side of the pair. It is BERT's second segment, if there is one.
        """
        segments = focus.long() if self.transformer.config.type_vocab_size > 1 else None
        return self.score(mean_over(self.hidden_states(ids, mask, perturbation, segments), mask))


class Tagger(BertEncoder):
    """It gives each word of a text scores of tags, and the state that they are made of.

    What is known of a word (the names of a knowledge base that lie there, its shape) is embedded and
    added to the input embeddings of its pieces. The embeddings of the word pieces are not trained.

    Args:
        n_tags: The number of tags.
        n_features: The number of features of a word.
        mixed_precision: See ``BertEncoder``.
    """

    def __init__(self, *, n_tags: int, n_features: int, mixed_precision: bool):
        super().__init__(mixed_precision=mixed_precision)
        self.n_tags = n_tags
        self.n_features = n_features
        self.features: nn.Linear | None = None
        self.tags: nn.Linear | None = None

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        super().load(transformer, tokenizer)
        self.transformer.embeddings.word_embeddings.requires_grad_(False)
        self.features = nn.Linear(self.n_features, self.width, bias=False)
        nn.init.normal_(self.features.weight, std=0.02)
        self.tags = nn.Linear(self.width, self.n_tags)
        self.n_outputs = self.n_tags + self.width

    def forward(
        self, ids: Tensor, mask: Tensor, firsts: Tensor, features: Tensor, perturbation: Tensor
    ) -> Tensor:
        """The words of n windows, one after the other: float32 [w, n_tags + width].

        Their scores come first, their states behind them. The other arguments are as of ``BertEncoder.hidden_states``.

        Args:
            firsts: bool [n, t], true at the first piece of each word.
            features: float32 [n, t, f], the features of the word of each piece.
        """
        added = self.features(features) + perturbation
        states = self.hidden_states(ids, mask, added, wanted=firsts)[firsts]
        return torch.cat([self.tags(states), states], dim=1)


class SpanEncoder(nn.Module):
    """Vectors of mentions from token states that another component of the pipeline has computed.

    It takes the mean over the states of each mention, and maps it into the space of the entity vectors by a
    linear layer, which is None before ``load``. A layer of a BERT may read the states before that:
    each token of a mention attends to its whole document.

    Args:
        normalize: Give vectors of length 1.
        mixed_precision: As of ``BertEncoder``, for the layer.
    """

    def __init__(self, *, normalize: bool, mixed_precision: bool = False):
        super().__init__()
        self.normalize = normalize
        self.mixed_precision = mixed_precision
        self.layer: BertLayer | None = None
        self.map: nn.Linear | None = None

    def load(self, width: int, n_outputs: int, bert: nn.Module | None = None) -> None:
        """Make the linear layer, from states of a width to vectors of the other.

        It starts as the identity if both are equal: then the states are of use at once. The last layer
        of a BERT, of Hugging Face or of this package, reads the states. PelError: it reads others.
        """
        if bert is not None:
            own = own_bert(bert)
            if own.config.hidden_size != width:
                raise PelError(
                    f"the layer reads states of {own.config.hidden_size} numbers, and these have {width}",
                    "take a layer of the BERT that the states come from",
                )
            self._make_layer(architecture(own))
            self.layer.load_state_dict(own.encoder.layer[-1].state_dict())
        self.n_outputs = n_outputs
        self.map = nn.Linear(width, n_outputs)
        if width == n_outputs:
            nn.init.eye_(self.map.weight)
        nn.init.zeros_(self.map.bias)

    def _make_layer(self, config: dict[str, Any]) -> None:
        self._config = config
        self.layer = BertLayer(SimpleNamespace(**config))

    def forward(self, states: Tensor, spans: Tensor, lengths: Tensor) -> Tensor:
        """Encode m mentions, int64 [m, 2] (see ``mean_of_spans``), of states [t, w] as float32 [m, d].

        lengths: int64 [n], how many of the t tokens are of each document.
        """
        if self.layer is not None:  # it gives the states of the tokens that are pooled
            wanted = torch.zeros(len(states), dtype=torch.bool, device=states.device)
            wanted[_tokens_of(spans)[0]] = True
            columns = states, torch.ones_like(wanted), wanted
            documents = zip(*(column.split(lengths.tolist()) for column in columns))
            device = states.device.type
            in_bfloat16 = self.mixed_precision and has_fast_bfloat16(device)
            with torch.autocast(device, torch.bfloat16, enabled=in_bfloat16):
                read = [
                    last_hidden_states([self.layer], *(x.unsqueeze(0) for x in document)).squeeze(0)
                    for document in documents
                ]
            states = torch.cat(read).float()
        vectors = self.map(mean_of_spans(states, spans))
        return nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors

    def description(self) -> dict[str, Any]:
        """The widths of both sides, and the kind of the layer; {} before ``load``."""
        if self.map is None:
            return {}
        widths = {"width": self.map.in_features, "n_outputs": self.map.out_features}
        return widths if self.layer is None else {**widths, "layer": self._config}

    def weights(self) -> dict[str, Tensor]:
        return {name: weight.float() for name, weight in self.state_dict().items()}

    def restore(self, description: dict[str, Any], weights: dict[str, Tensor]) -> None:
        """Take what ``description`` and ``weights`` gave."""
        self.load(description["width"], description["n_outputs"])
        if "layer" in description:
            self._make_layer(description["layer"])
        self.load_state_dict(weights, assign=True)
