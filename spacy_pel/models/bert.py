"""BERT in plain torch, with Hugging Face's parameter names.

Hugging Face's ``BertModel`` computes the same states, but importing it takes seconds and 100 MB. It also
computes the last layer for every token. An encoder pools the states of a few tokens: the last layer needs
the others only as keys and values, a sixth of its cost.

Attention has no dropout, whatever the configuration says.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn
from typing_extensions import Self

from ..errors import PelError

# On a CPU, torch keeps what it has compiled for each shape of a product in bfloat16, and oneDNN below
# it keeps the same again: 1,024 shapes each, which documents of all lengths soon fill. Torch's own copy
# is 120 MB and saves no time (measured), so it keeps one. It reads this at the first product.
os.environ.setdefault("LRU_CACHE_CAPACITY", "1")
# Torch's names for the bfloat16 instructions of x86 and ARM processors.
_BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16")
# The fields of a Hugging Face configuration that decide what a BERT computes. Other fields differ between
# versions of transformers, and a KB must still fit after an upgrade.
_ARCHITECTURE = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("hidden_act", "hidden_dropout_prob", "max_position_embeddings", "type_vocab_size"),
    *("layer_norm_eps", "pad_token_id"),
    "attention_size",  # of the queries, keys and values of a layer; Hugging Face's have the hidden size
)
# Hugging Face's names of activations.
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": nn.functional.gelu,
    "gelu_new": partial(nn.functional.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(nn.functional.gelu, approximate="tanh"),
    "relu": nn.functional.relu,
    "silu": nn.functional.silu,
}
# Vectors must be the same to the last bit for any number of threads. Torch's sums are not in a matrix
# product with fewer rows than MIN_ROWS, or in attention if the number of queries is no multiple of
# _QUERIES. Rows and queries are padded to these.
MIN_ROWS = 16
_QUERIES = 4


class _WithoutInitialization(nn.Module):
    """A layer whose weights are loaded later. Drawing random weights first would waste time."""

    def reset_parameters(self) -> None:
        pass

    def train(self, mode: bool = True) -> Self:
        """Set the training mode. Weights that were read as float16 become float32 before training."""
        super().train(mode)
        return self.float() if mode else self


class _Linear(_WithoutInitialization, nn.Linear):
    """A linear layer that caches its weights in the dtype of inference.

    Autocast would cast them again in each pass.
    """

    _cached: tuple[tuple[Any, ...], Tensor, Tensor] | None = None  # key, weight, bias

    def forward(self, states: Tensor) -> Tensor:
        device, dtype = states.device.type, self.bias.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        if not torch.is_inference_mode_enabled() or self.weight.dtype == dtype:
            return nn.functional.linear(states, self.weight.to(self.bias.dtype), self.bias)
        key = dtype, *((x.data_ptr(), x._version) for x in (self.weight, self.bias))
        if (cached := self._cached) is None or cached[
            0
        ] != key:  # threads may repeat this; it is safe
            self._cached = cached = key, self.weight.to(dtype), self.bias.to(dtype)
        return nn.functional.linear(states, *cached[1:])

    def train(self, mode: bool = True) -> Self:
        if mode:
            self._cached = None
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cached": None}


class _Embedding(_WithoutInitialization, nn.Embedding):
    pass


class Bert(nn.Module):
    """A BERT without a pooler.

    Its weights are undefined until they are loaded.

    Args:
        config: The fields that ``architecture`` returns.

    Raises:
        PelError: The activation is unknown.
    """

    def __init__(self, config: Mapping[str, Any]):
        super().__init__()
        self.config = SimpleNamespace(**config)
        self.embeddings = _Embeddings(self.config)
        self.encoder = _Layers(self.config)

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the embeddings of the word pieces."""
        return self.embeddings.word_embeddings


class _Layers(nn.Module):
    def __init__(self, config: SimpleNamespace):
        super().__init__()
        self.layer = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))


class _Embeddings(nn.Module):
    """Input embeddings: word, segment and position."""

    def __init__(self, config: SimpleNamespace):
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = _Embedding(config.vocab_size, width, config.pad_token_id)
        self.position_embeddings = _Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = _Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, ids: Tensor, added: Tensor | float, segments: Tensor | None) -> Tensor:
        """Embed ids and segments (None: zeros), int64 [n, t], as float [n, t, d].

        ``added`` is added to the sum of the embeddings, before their normalization.
        """
        embedded: Tensor = self.dropout(self.LayerNorm(self.summed(ids, added, segments)))
        return embedded

    def summed(self, ids: Tensor, added: Tensor | float, segments: Tensor | None) -> Tensor:
        """Return the embeddings before their normalization."""
        segments = torch.zeros_like(ids) if segments is None else segments
        words: Tensor = self.word_embeddings(ids).float() + added
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        typed: Tensor = words + self.token_type_embeddings(segments)
        return typed + cast("Tensor", self.position_embeddings(positions))


class BertLayer(nn.Module):
    """A layer of ``Bert``. Its weights are undefined until they are loaded."""

    def __init__(self, config: SimpleNamespace):
        super().__init__()
        if config.hidden_act not in _ACTIVATIONS:
            raise PelError(
                f'the encoder has the activation "{config.hidden_act}"',
                f"choose one with {', '.join(_ACTIVATIONS)}",
            )
        self.config = config
        self.activation = _ACTIVATIONS[config.hidden_act]
        self.attention = _Attention(config)
        self.intermediate = _Intermediate(config)
        self.output = _Residual(config.intermediate_size, config)

    def feed_forward(self, attended: Tensor, states: Tensor) -> Tensor:
        """Compute the rest of the layer after attention: [..., d] to [..., d]."""
        states = self.attention.output(attended, states)
        return cast("Tensor", self.output(self.activation(self.intermediate.dense(states)), states))


class _Attention(nn.Module):
    def __init__(self, config: SimpleNamespace):
        super().__init__()
        size = getattr(config, "attention_size", config.hidden_size)
        self.self = _SelfAttention(size, config)
        self.output = _Residual(size, config)


class _SelfAttention(nn.Module):
    """The attention of all heads."""

    def __init__(self, size: int, config: SimpleNamespace):
        super().__init__()
        self.num_attention_heads: int = config.num_attention_heads
        self.query, self.key, self.value = (_Linear(config.hidden_size, size) for _ in range(3))

    def forward(self, queries: Tensor, states: Tensor, keys: Tensor | None) -> Tensor:
        """Let queries, float [n, q, d], attend to states, float [n, t, d]; return float [n, q, d].

        keys: bool [n, 1, 1, t], the tokens to attend to; None for all.
        """
        n = queries.shape[1]
        padded = nn.functional.pad(queries, (0, 0, 0, -n % _QUERIES))
        query, key, value = (
            x.unflatten(-1, (self.num_attention_heads, -1)).transpose(1, 2)
            for x in (padded, self.key(states), self.value(states))
        )
        attended = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=keys)
        return attended[:, :, :n].transpose(1, 2).flatten(2)


class _Intermediate(nn.Module):
    def __init__(self, config: SimpleNamespace):
        super().__init__()
        self.dense = _Linear(config.hidden_size, config.intermediate_size)


class _Residual(nn.Module):
    """A linear map with a residual connection."""

    def __init__(self, n_inputs: int, config: SimpleNamespace):
        super().__init__()
        self.dense = _Linear(n_inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, states: Tensor, residual: Tensor) -> Tensor:
        mapped: Tensor = self.LayerNorm(self.dropout(self.dense(states)) + residual)
        return mapped


def last_hidden_states(
    layers: Iterable[nn.Module], states: Tensor, mask: Tensor, needed: Tensor | None = None
) -> Tensor:
    """Return the states after the last of several layers, float [n, t, d].

    The last layer computes the states of the w needed tokens as one matrix [w, d].

    Args:
        layers: The layers, in their order.
        states: float [n, t, d], the input embeddings.
        mask: bool [n, t], false for padding.
        needed: bool [n, t], the tokens whose states are needed; other states are 0. None for all.
    """
    *inner, last = cast("Iterable[BertLayer]", layers)
    keys = None if bool(mask.all()) else mask[:, None, None, :]
    for layer in inner if needed is not None else [*inner, last]:
        attention = layer.attention.self
        attended = attention(attention.query(states), states, keys)
        states = layer.feed_forward(attended, states)
    if needed is None:
        return states
    attention, positions = last.attention.self, needed.nonzero(as_tuple=True)
    columns = (needed.cumsum(1) - 1)[needed]
    more_rows = 0, 0, 0, max(0, MIN_ROWS - len(columns))
    needed_states = nn.functional.pad(states[positions], more_rows)
    queries = attention.query(needed_states)[: len(columns)]
    padded = queries.new_zeros(len(states), int(needed.sum(1).max()), queries.shape[-1])
    padded = padded.index_put((positions[0], columns), queries)
    attended = attention(padded, states, keys)[positions[0], columns]
    attended = nn.functional.pad(attended, more_rows)
    outputs = last.feed_forward(attended, needed_states)[: len(columns)]
    return outputs.new_zeros(states.shape).index_put(positions, outputs)


def architecture(transformer: nn.Module) -> dict[str, Any]:
    """Return the fields of a BERT's configuration that determine its outputs."""
    config = transformer.config
    return {name: getattr(config, name) for name in _ARCHITECTURE if hasattr(config, name)}


def as_bert(transformer: nn.Module) -> Bert:
    """Convert a BERT of Hugging Face to a ``Bert`` with the same weights.

    Raises:
        PelError: Its position embeddings are relative.
    """
    kind = getattr(transformer.config, "position_embedding_type", "absolute")
    if kind != "absolute":
        problem = f'the encoder has position embeddings of type "{kind}"'
        raise PelError(problem, 'choose one with "absolute"')
    if isinstance(transformer, Bert):
        return transformer
    bert = Bert(architecture(transformer))
    weights = transformer.state_dict().items()
    kept = {name: weight for name, weight in weights if not name.startswith("pooler.")}
    bert.load_state_dict(kept, assign=True)
    return bert


def build_transformer(**config: Any) -> nn.Module:
    """Make a BERT with random weights from the fields of a Hugging Face configuration."""
    # Imported here: it takes seconds, and a saved pipeline does not need it.
    import transformers

    configuration = transformers.BertConfig(**config)
    bert: nn.Module = transformers.BertModel(configuration, add_pooling_layer=False)
    return bert


def with_layers(transformer: Any, n: int, *, spread: bool) -> nn.Module:
    """Keep n layers of a BERT in place: spread evenly, or the first ones.

    Raises:
        PelError: The BERT has fewer layers.
    """
    layers = transformer.encoder.layer
    if not 1 <= n <= len(layers):
        raise PelError(
            f"{n} layers of an encoder that has {len(layers)}", f"choose from 1 to {len(layers)}"
        )
    last = len(layers) - 1 if spread else n - 1
    kept = torch.linspace(0, last, n).round().int().tolist()
    transformer.encoder.layer = nn.ModuleList(layers[i] for i in kept)
    transformer.config.num_hidden_layers = n
    kept_layers: nn.Module = transformer
    return kept_layers


@cache
def has_fast_bfloat16(device_type: str) -> bool:
    """Tell whether a type of device ("cpu", "cuda", …) has instructions for bfloat16.

    A processor without them is 7 times slower in bfloat16 than in float32. So are GPUs older than Ampere,
    such as a V100.
    """
    if device_type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device_type != "cpu" or not hasattr(torch.cpu, "get_capabilities"):
        return True
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in _BFLOAT16_INSTRUCTIONS)
