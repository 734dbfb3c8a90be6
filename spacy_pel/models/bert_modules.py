"""The modules of a BERT, named as in Hugging Face, to be filled with stored weights.

A stored encoder needs nothing else of ``transformers``, whose import takes seconds and 80 MB.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn


class StoredBert(nn.Module):
    """A BERT without values: its weights come by ``load_state_dict(..., assign=True)``.

    It has no forward pass, as Hugging Face's is not used either (see ``bert_layers``).

    Args:
        **config: The fields of Hugging Face's configuration that decide what a BERT computes.
    """

    def __init__(self, **config) -> None:
        super().__init__()
        self.config = SimpleNamespace(**config)
        with torch.device("meta"):
            self.embeddings = _Embeddings(self.config)
            self.encoder = nn.Module()
            layers = range(self.config.num_hidden_layers)
            self.encoder.layer = nn.ModuleList(_Layer(self.config) for _ in layers)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embeddings.word_embeddings.weight.device

    def get_input_embeddings(self) -> nn.Embedding:
        """Give the embeddings of word pieces."""
        return self.embeddings.word_embeddings


class _Embeddings(nn.Module):
    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = _table(config.vocab_size, width, config.pad_token_id)
        self.position_embeddings = _table(config.max_position_embeddings, width)
        self.token_type_embeddings = _table(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, inputs_embeds: Tensor, token_type_ids: Tensor | None) -> Tensor:
        """The input embeddings [n, t, d] of word embeddings [n, t, d] and token types [n, t]."""
        n, length, _ = inputs_embeds.shape
        positions = torch.arange(length, device=inputs_embeds.device)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(positions).expand(n, length)
        embedded = inputs_embeds + self.token_type_embeddings(token_type_ids)
        embedded = embedded + self.position_embeddings(positions)
        return self.dropout(self.LayerNorm(embedded))


def _table(rows: int, width: int, padding: int | None = None) -> nn.Embedding:
    # Given empty, as torch would import its compiler to draw random values for what has no memory.
    return nn.Embedding.from_pretrained(torch.empty(rows, width), freeze=False, padding_idx=padding)


class _Layer(nn.Module):
    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.attention = nn.Module()
        self.attention.self = nn.Module()
        self.attention.self.num_attention_heads = config.num_attention_heads
        for name in ("query", "key", "value"):
            self.attention.self.add_module(name, nn.Linear(width, width))
        self.attention.output = _Added(config, width)
        self.intermediate = _Intermediate(config)
        self.output = _Added(config, inner)


class _Intermediate(nn.Module):
    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self._activation = _activation(config.hidden_act)

    def forward(self, states: Tensor) -> Tensor:
        return self._activation(self.dense(states))


class _Added(nn.Module):
    """A product that is added to the states before it."""

    def __init__(self, config: SimpleNamespace, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, states: Tensor, before: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(states)) + before)


def _activation(name: str) -> Callable[[Tensor], Tensor]:
    if name == "gelu":
        return nn.functional.gelu
    from transformers.activations import ACT2FN

    return ACT2FN[name]
