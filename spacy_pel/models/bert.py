"""A BERT in torch alone, with Hugging Face's names, and computed for the tokens that are needed.

Hugging Face's own ``BertModel`` computes the same. But to import it takes seconds and a hundred MB.
And it computes the last layer for every token, where an encoder pools the states of a few. In the
last layer the other tokens are needed as keys and values alone, which is a sixth of its cost.

Attention has no dropout, whatever the configuration says.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import PelError

# On a CPU, torch keeps what it has compiled for each shape of a product in bfloat16, and oneDNN below
# it keeps the same again: 1,024 shapes each, which documents of all lengths soon fill. Torch's own copy
# is 120 MB and saves no time (measured), so it keeps one. It reads this at the first product.
os.environ.setdefault("LRU_CACHE_CAPACITY", "1")
# Torch's names for the instructions of x86 and ARM processors that compute in bfloat16.
_BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16")
# The fields of a Hugging Face configuration that decide what a BERT computes. The others do not, or
# they differ between versions of transformers, and a KB must still fit after an upgrade.
_ARCHITECTURE = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("hidden_act", "hidden_dropout_prob", "max_position_embeddings", "type_vocab_size"),
    *("layer_norm_eps", "pad_token_id"),
)
# Hugging Face's names of activations.
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": nn.functional.gelu,
    "gelu_new": partial(nn.functional.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(nn.functional.gelu, approximate="tanh"),
    "relu": nn.functional.relu,
    "silu": nn.functional.silu,
}
# Vectors must not depend on the number of threads, to the last bit. Torch's sums do in a product of
# matrices with fewer rows than LEAST_ROWS, and in attention if the number of queries is no multiple
# of _QUERIES. So rows and queries are padded.
LEAST_ROWS = 16
_QUERIES = 4


class _Waiting:
    """A layer that waits for its weights: to draw some takes time, and on "meta" an import of 2 s."""

    def reset_parameters(self) -> None:
        pass

    def train(self, mode: bool = True) -> nn.Module:
        """As torch's. Weights that were read as float16 become float32 before they are trained."""
        return super().train(mode).float() if mode else super().train(mode)


class _Linear(_Waiting, nn.Linear):
    """A linear layer. For inference it keeps its weights in the type that it computes in, if they have another.

    Autocast would cast them again in each pass.
    """

    _cast: tuple[tuple, Tensor, Tensor] | None = None  # what was cast, and weight and bias

    def forward(self, states: Tensor) -> Tensor:
        device, dtype = states.device.type, self.bias.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        if not torch.is_inference_mode_enabled() or self.weight.dtype == dtype:
            return nn.functional.linear(states, self.weight.to(self.bias.dtype), self.bias)
        made_of = dtype, *((x.data_ptr(), x._version) for x in (self.weight, self.bias))
        if (cast := self._cast) is None or cast[0] != made_of:  # another thread may do it, too
            self._cast = cast = made_of, self.weight.to(dtype), self.bias.to(dtype)
        return nn.functional.linear(states, *cast[1:])

    def train(self, mode: bool = True) -> nn.Module:
        self._cast = None if mode else self._cast
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cast": None}


class _Embedding(_Waiting, nn.Embedding):
    pass


class Bert(nn.Module):
    """A BERT without its pooler, of a config with the fields of ``architecture``.

    Its weights are undefined until they are loaded. PelError: the activation is unknown.
    """

    def __init__(self, config: Mapping[str, Any]):
        super().__init__()
        self.config = SimpleNamespace(**config)
        self.embeddings = _Embeddings(self.config)
        self.encoder = nn.Module()
        layers = range(self.config.num_hidden_layers)
        self.encoder.layer = nn.ModuleList(BertLayer(self.config) for _ in layers)

    def get_input_embeddings(self) -> nn.Embedding:
        """The embeddings of the word pieces."""
        return self.embeddings.word_embeddings


class _Embeddings(nn.Module):
    """The input embeddings: word, segment and position."""

    def __init__(self, config: SimpleNamespace):
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = _Embedding(config.vocab_size, width, config.pad_token_id)
        self.position_embeddings = _Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = _Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, ids: Tensor, added: Tensor | float, segments: Tensor | None) -> Tensor:
        """Ids and segments (None: zeros), int64 [n, t], to embeddings [n, t, d], with what is added."""
        return self.dropout(self.LayerNorm(self.summed(ids, added, segments)))

    def summed(self, ids: Tensor, added: Tensor | float, segments: Tensor | None) -> Tensor:
        """The same before they are normalized."""
        segments = torch.zeros_like(ids) if segments is None else segments
        embedded = self.word_embeddings(ids).float() + added + self.token_type_embeddings(segments)
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        return embedded + self.position_embeddings(positions)


class BertLayer(nn.Module):
    """A layer, of a config as that of ``Bert``. Its weights are undefined until they are loaded."""

    def __init__(self, config: SimpleNamespace):
        super().__init__()
        if config.hidden_act not in _ACTIVATIONS:
            raise PelError(
                f'the encoder has the activation "{config.hidden_act}"',
                f"choose one with {', '.join(_ACTIVATIONS)}",
            )
        self.activation = _ACTIVATIONS[config.hidden_act]
        width = config.hidden_size
        self.attention = nn.Module()
        self.attention.self = nn.Module()
        self.attention.self.num_attention_heads = config.num_attention_heads
        for name in ("query", "key", "value"):
            setattr(self.attention.self, name, _Linear(width, width))
        self.attention.output = _Residual(width, config)
        self.intermediate = nn.Module()
        self.intermediate.dense = _Linear(width, config.intermediate_size)
        self.output = _Residual(config.intermediate_size, config)


class _Residual(nn.Module):
    """A linear map, added to what went into its layer."""

    def __init__(self, n_inputs: int, config: SimpleNamespace):
        super().__init__()
        self.dense = _Linear(n_inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, states: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(states)) + residual)


def last_hidden_states(
    layers: Sequence[nn.Module], states: Tensor, mask: Tensor, wanted: Tensor | None = None
) -> Tensor:
    """The states after the last of some layers, float [n, t, d].

    In the last layer the states of the w wanted tokens are computed as one matrix [w, d], and padded
    for attention alone.

    Args:
        states: Float [n, t, d], the input embeddings.
        mask: bool [n, t], false for padding.
        wanted: bool [n, t], the tokens whose states are needed; the others' are 0. None for all.
    """
    keys = None if bool(mask.all()) else mask[:, None, None, :]
    for layer in layers if wanted is None else layers[:-1]:
        queries = layer.attention.self.query(states)
        states = _fed_forward(layer, _attended(layer, queries, states, keys), states)
    if wanted is None:
        return states
    layer, places = layers[-1], wanted.nonzero(as_tuple=True)
    columns = (wanted.cumsum(1) - 1)[wanted]
    more_rows = 0, 0, 0, max(0, LEAST_ROWS - len(columns))
    asking = nn.functional.pad(states[places], more_rows)
    queries = layer.attention.self.query(asking)[: len(columns)]
    padded = queries.new_zeros(len(states), int(wanted.sum(1).max()), queries.shape[-1])
    padded = padded.index_put((places[0], columns), queries)
    attended = _attended(layer, padded, states, keys)[places[0], columns]
    attended = nn.functional.pad(attended, more_rows)
    found = _fed_forward(layer, attended, asking)[: len(columns)]
    return found.new_zeros(states.shape).index_put(places, found)


def _attended(layer: nn.Module, queries: Tensor, states: Tensor, keys: Tensor | None) -> Tensor:
    """The attention of all heads: queries [n, q, d] over states [n, t, d] give [n, q, d].

    keys: bool [n, 1, 1, t], the tokens that are attended to; None for all.
    """
    own = layer.attention.self
    n = queries.shape[1]
    padded = nn.functional.pad(queries, (0, 0, 0, -n % _QUERIES))
    inputs = (padded, own.key(states), own.value(states))
    heads = [x.unflatten(-1, (own.num_attention_heads, -1)).transpose(1, 2) for x in inputs]
    attended = nn.functional.scaled_dot_product_attention(*heads, attn_mask=keys)
    return attended[:, :, :n].transpose(1, 2).flatten(2)


def _fed_forward(layer: nn.Module, attended: Tensor, states: Tensor) -> Tensor:
    """The rest of a layer after attention, with its residual connections: [..., d] to [..., d]."""
    states = layer.attention.output(attended, states)
    return layer.output(layer.activation(layer.intermediate.dense(states)), states)


def architecture(transformer: nn.Module) -> dict[str, Any]:
    """The fields of its configuration that decide what a BERT computes."""
    return {name: getattr(transformer.config, name) for name in _ARCHITECTURE}


def own_bert(transformer: nn.Module) -> Bert:
    """A BERT of Hugging Face as ``Bert``, with its weights; PelError for relative positions."""
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


def build_transformer(**config) -> nn.Module:
    """A BERT with random weights, of the given Hugging Face configuration."""
    # Imported here: it takes seconds, and a saved pipeline does not need it.
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**config), add_pooling_layer=False)


def with_layers(transformer: nn.Module, n: int, *, spread: bool) -> nn.Module:
    """Keep n layers of a BERT, spread evenly or the first ones, in place. PelError if it has fewer."""
    layers = transformer.encoder.layer
    if not 1 <= n <= len(layers):
        raise PelError(
            f"{n} layers of an encoder that has {len(layers)}", f"choose from 1 to {len(layers)}"
        )
    last = len(layers) - 1 if spread else n - 1
    kept = torch.linspace(0, last, n).round().int().tolist()
    transformer.encoder.layer = nn.ModuleList(layers[i] for i in kept)
    transformer.config.num_hidden_layers = n
    return transformer


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block torch computes with one thread.

    The kernels of small models are so short that threads which share them mostly spin. With two, a sentence
    takes twice as long, and beside another program a ranking is fitted in minutes instead of seconds.
    """
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


@cache
def has_fast_bfloat16(device_type: str) -> bool:
    """Whether a device ("cpu", "cuda" or another type of torch's) has instructions for bfloat16.

    A processor without them is far slower in bfloat16 than in float32 (7 times, measured). So are
    GPUs older than Ampere, such as a V100.
    """
    if device_type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device_type != "cpu" or not hasattr(torch.cpu, "get_capabilities"):
        return True
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in _BFLOAT16_INSTRUCTIONS)
