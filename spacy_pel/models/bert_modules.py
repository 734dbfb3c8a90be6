"""The modules of a BERT, named as Hugging Face names them, in torch alone.

Hugging Face's own ``BertModel`` computes the same. But to import it takes seconds and a hundred MB,
which a trained linker does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import PelError

# Hugging Face's names of activations.
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": nn.functional.gelu,
    "gelu_new": partial(nn.functional.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(nn.functional.gelu, approximate="tanh"),
    "relu": nn.functional.relu,
    "silu": nn.functional.silu,
}


class _Linear(nn.Linear):
    """A linear map that waits for its weights."""

    def reset_parameters(self) -> None:
        """Draw none: it takes time, and on the device "meta" an import of two seconds."""


class _Embedding(nn.Embedding):
    """Embeddings that wait for their weights."""

    def reset_parameters(self) -> None:
        """Draw none, as of ``_Linear``."""


class Bert(nn.Module):
    """A BERT without its pooler. ``bert_layers`` computes its layers.

    Its weights are undefined until they are loaded.

    Args:
        config: The fields of Hugging Face's configuration that decide what it computes.

    Attributes:
        config: The same, as attributes.

    Raises:
        PelError: The activation is unknown.
    """

    def __init__(self, config: Mapping[str, Any]):
        super().__init__()
        self.config = SimpleNamespace(**config)
        self.embeddings = _Embeddings(self.config)
        self.encoder = nn.Module()
        layers = range(self.config.num_hidden_layers)
        self.encoder.layer = nn.ModuleList(_Layer(self.config) for _ in layers)

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.parameters()).device

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

    def forward(self, inputs_embeds: Tensor, token_type_ids: Tensor | None) -> Tensor:
        """Word embeddings [n, t, d] and segments [n, t] (None: zeros) to embeddings [n, t, d]."""
        length, device = inputs_embeds.shape[1], inputs_embeds.device
        if token_type_ids is None:
            token_type_ids = torch.zeros(inputs_embeds.shape[:2], dtype=torch.long, device=device)
        embedded = inputs_embeds + self.token_type_embeddings(token_type_ids)
        embedded = embedded + self.position_embeddings(torch.arange(length, device=device)[None])
        return self.dropout(self.LayerNorm(embedded))


class _Layer(nn.Module):
    """A layer. ``bert_layers`` computes the attention of its ``attention.self``."""

    def __init__(self, config: SimpleNamespace):
        super().__init__()
        width = config.hidden_size
        self.attention = nn.Module()
        self.attention.self = nn.Module()
        self.attention.self.num_attention_heads = config.num_attention_heads
        for name in ("query", "key", "value"):
            setattr(self.attention.self, name, _Linear(width, width))
        self.attention.output = _Residual(width, config)
        self.intermediate = _Intermediate(config)
        self.output = _Residual(config.intermediate_size, config)


class _Intermediate(nn.Module):
    def __init__(self, config: SimpleNamespace):
        super().__init__()
        if config.hidden_act not in _ACTIVATIONS:
            raise PelError(
                f'the encoder has the activation "{config.hidden_act}"',
                f"choose one with {', '.join(_ACTIVATIONS)}",
            )
        self.dense = _Linear(config.hidden_size, config.intermediate_size)
        self.activation = _ACTIVATIONS[config.hidden_act]

    def forward(self, states: Tensor) -> Tensor:
        return self.activation(self.dense(states))


class _Residual(nn.Module):
    """A linear map, added to what went into its layer."""

    def __init__(self, n_inputs: int, config: SimpleNamespace):
        super().__init__()
        self.dense = _Linear(n_inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, states: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(states)) + residual)
