"""The base of all encoders: a BERT whose input embeddings can be perturbed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from ..errors import PelError
from .bert_layers import last_hidden_states
from .bert_modules import Bert

# Torch's names for the instructions of x86 and ARM processors that compute in bfloat16.
_BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16")
# The fields of a Hugging Face configuration that decide what a BERT computes. The others do not, or
# they differ between versions of transformers, and a KB must still fit after an upgrade.
_ARCHITECTURE = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "pad_token_id",
)
# The number of tokens from which torch's fused attention is no slower in training than the plain one
# (measured: the same time at 128, 85 % of the time at 256, 75 % at 512).
_LONG = 128


class BertEncoder(nn.Module):
    """Base of the encoders: a BERT, its tokenizer and its precision.

    The transformer and the tokenizer come later (``load``), from training or from disk; both are
    None until then. ``packed_weights`` saves them.

    Args:
        mixed_precision: Compute in bfloat16 where torch holds that to be safe. It is three times as
            fast on a processor with bfloat16 instructions, and has no effect on one without.

    Attributes:
        transformer: A ``Bert``, or None.
        tokenizer: Its tokenizer, or None.
        gradient_caching: Keep only the inputs of each batch in training, and compute the batch
            again when its gradient arrives. It takes 11 to 20 % more time, and memory for one
            batch.
        computed_by: Computes the hidden states in place of torch in inference, from ids, mask,
            segments and wanted (``onnx_states.OnnxStates``). It is set for the time of a call, and
            so it is never saved or copied.
    """

    def __init__(self, *, mixed_precision: bool):
        super().__init__()
        self.mixed_precision = mixed_precision
        self.gradient_caching = False
        self.transformer: nn.Module | None = None
        self.tokenizer: Tokenizer | None = None
        self.computed_by: Callable[..., Tensor] | None = None

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        """Take a Hugging Face BERT and its tokenizer.

        Args:
            transformer: The BERT, of Hugging Face or of this package. Its weights are taken as they
                are; its pooler is dropped.
            tokenizer: The tokenizer of its vocabulary.

        Raises:
            PelError: The BERT has relative position embeddings, which ``last_hidden_states`` does
                not compute.
        """
        kind = getattr(transformer.config, "position_embedding_type", "absolute")
        if kind != "absolute":
            raise PelError(
                f'the encoder has position embeddings of type "{kind}"',
                'choose one with "absolute"',
            )
        self.transformer = _own(transformer)
        self.tokenizer = tokenizer

    @property
    def width(self) -> int:
        """Length of the embeddings and the states."""
        return self.transformer.config.hidden_size

    @property
    def n_outputs(self) -> int:
        """The number of values that it gives for an input."""
        raise NotImplementedError

    @property
    def position_limit(self) -> int:
        """The largest number of tokens of an input."""
        return self.transformer.config.max_position_embeddings

    def set_dropout(self, rate: float) -> None:
        """Set the rate of every dropout layer; attention has none (see ``bert_layers``)."""
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = rate

    def hidden_states(
        self,
        ids: Tensor,
        mask: Tensor,
        perturbation: Tensor,
        segments: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Compute the last hidden states of a batch of n inputs, padded to t tokens.

        Args:
            ids: int64 [n, t], token ids.
            mask: bool [n, t], false for padding.
            perturbation: float32 [n, t, d], or zeros [1, 1, 1] for none. It is added to the
                composite input embeddings (word + position + segment; PEL, Eq. 6 and 7). BERT sums
                the three, so it may be added to the word embeddings. Its gradient is the gradient
                by the composite embeddings.
            segments: int64 [n, t], token types; None for zeros.
            wanted: bool [n, t], the tokens whose states are needed. The last layer is computed for
                them alone; the states of the others are 0. None for all tokens.

        Returns:
            float32 [n, t, d].
        """
        if self.computed_by is not None and not self.training:
            return self.computed_by(ids, mask, segments, wanted)
        inputs = ids, mask, perturbation, segments, wanted
        if self.training and self.gradient_caching:
            return checkpoint(self._computed_by_torch, *inputs, use_reentrant=False)
        return self._computed_by_torch(*inputs)

    def _computed_by_torch(
        self,
        ids: Tensor,
        mask: Tensor,
        perturbation: Tensor,
        segments: Tensor | None,
        wanted: Tensor | None,
    ) -> Tensor:
        """The hidden states by torch; arguments as of ``hidden_states``."""
        in_bfloat16 = self.mixed_precision and has_fast_bfloat16(ids.device.type)
        with (
            torch.autocast(ids.device.type, torch.bfloat16, enabled=in_bfloat16),
            self._attention_kernel(ids.device, ids.shape[1]),
        ):
            words = self.transformer.get_input_embeddings()(ids)
            embedded = self.transformer.embeddings(
                inputs_embeds=words + perturbation, token_type_ids=segments
            )
            layers = self.transformer.encoder.layer
            return last_hidden_states(layers, embedded, mask, wanted).float()

    def _attention_kernel(self, device: torch.device, length: int):
        """A context in which torch uses the fastest attention.

        That is torch's own choice, except in training with short inputs on a CPU: there the
        backward pass of its fused attention takes twice the time of the plain one.
        """
        if self.training and device.type == "cpu" and length < _LONG:
            return sdpa_kernel(SDPBackend.MATH)
        return nullcontext()

    def description(self) -> dict[str, str]:
        """Describe everything but the weights that decides the vectors.

        Returns:
            ``config``, the transformer's configuration, and ``tokenizer``, both as JSON; {} before
            ``load``.
        """
        if self.transformer is None:
            return {}
        config = json.dumps(_architecture(self.transformer))
        return {"config": config, "tokenizer": self.tokenizer.to_str()}

    def weights(self) -> dict[str, Tensor]:
        """Give the weights by name; those of the transformer have Hugging Face's names."""
        return {_short(name): weight for name, weight in self.state_dict().items()}

    def restore(self, description: dict[str, str], weights: dict[str, Tensor]) -> None:
        """Take a description and weights; it needs no network.

        Args:
            description: What ``description`` gave.
            weights: What ``weights`` gave.

        Raises:
            RuntimeError: The weights are of another encoder.
        """
        transformer = Bert(json.loads(description["config"]))
        self.load(transformer, Tokenizer.from_str(description["tokenizer"]))
        names = {_short(name): name for name in self.state_dict()}
        self.load_state_dict({names.get(k, k): v for k, v in weights.items()}, assign=True)


def _own(transformer: nn.Module) -> Bert:
    """A Hugging Face BERT as ``Bert``, with the same weights and without its pooler."""
    if isinstance(transformer, Bert):
        return transformer
    bert = Bert(_architecture(transformer))
    weights = transformer.state_dict().items()
    kept = {name: weight for name, weight in weights if not name.startswith("pooler.")}
    bert.load_state_dict(kept, assign=True)
    return bert


def _architecture(transformer: nn.Module) -> dict[str, Any]:
    """The fields of its configuration that decide what a BERT computes."""
    return {name: getattr(transformer.config, name) for name in _ARCHITECTURE}


def _short(name: str) -> str:
    return name.removeprefix("transformer.")


def mean_over(hidden: Tensor, mask: Tensor) -> Tensor:
    """Average over the tokens of each input.

    Args:
        hidden: Float [n, t, d].
        mask: bool [n, t], the tokens that are averaged, at least one of each input.

    Returns:
        Float [n, d].
    """
    weight = mask.to(hidden.dtype)
    return (hidden * weight.unsqueeze(-1)).sum(1) / weight.sum(1, keepdim=True)


def build_transformer(**config) -> nn.Module:
    """Make a BERT with random weights, of the given Hugging Face configuration."""
    # Imported here: it takes seconds, and a saved pipeline does not need it.
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**config), add_pooling_layer=False)


def first_layers(transformer: nn.Module, n: int) -> nn.Module:
    """Keep the first n of a BERT's layers.

    Args:
        transformer: The BERT, which is changed.
        n: The number of layers to keep.

    Returns:
        The same BERT.

    Raises:
        PelError: n is less than 1 or more than the number of its layers.
    """
    _check_layers(transformer, n)
    return _with_layers_at(transformer, list(range(n)))


def evenly_spaced_layers(transformer: nn.Module, n: int) -> nn.Module:
    """Keep n of a BERT's layers, spread evenly from the first to the last.

    Args:
        transformer: The BERT, which is changed.
        n: The number of layers to keep.

    Returns:
        The same BERT.

    Raises:
        PelError: n is less than 1 or more than the number of its layers.
    """
    _check_layers(transformer, n)
    kept = torch.linspace(0, len(transformer.encoder.layer) - 1, n).round().int().tolist()
    return _with_layers_at(transformer, kept)


def _check_layers(transformer: nn.Module, n: int) -> None:
    """Refuse a number of layers that the BERT cannot be cut to."""
    layers = transformer.encoder.layer
    if not 1 <= n <= len(layers):
        raise PelError(
            f"{n} layers of an encoder that has {len(layers)}", f"choose from 1 to {len(layers)}"
        )


def _with_layers_at(transformer: nn.Module, kept: list[int]) -> nn.Module:
    """The BERT, which is changed, with the layers at these places."""
    transformer.encoder.layer = nn.ModuleList(transformer.encoder.layer[i] for i in kept)
    transformer.config.num_hidden_layers = len(kept)
    return transformer


@cache
def has_fast_bfloat16(device_type: str) -> bool:
    """Tell whether the device has instructions that compute in bfloat16.

    A processor without them is far slower in bfloat16 than in float32 (7 times, measured). So are
    GPUs older than Ampere, such as a V100.

    Args:
        device_type: "cpu", "cuda", or another type of torch's.
    """
    if device_type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device_type != "cpu" or not hasattr(torch.cpu, "get_capabilities"):
        return True
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in _BFLOAT16_INSTRUCTIONS)
