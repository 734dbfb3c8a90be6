"""A BERT whose input embeddings can be perturbed: what the encoders of the package share."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from ..errors import PelError
from .bert_layers import last_hidden_states

# What torch calls the instructions of x86 and ARM processors that compute in bfloat16.
_BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16")
# What of a Hugging Face configuration makes a BERT. The rest has no bearing on it, or differs with
# the version of transformers, and a KB's vectors are to fit after an upgrade as well.
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
# Tokens from which on torch's fused attention is the faster one in training (measured: 128 as
# fast as the plain one, 256 in 85 % of the time, 512 in 75 %).
_LONG = 128


class BertEncoder(nn.Module):
    """Base of the encoders: weights and their precision; ``weights`` has how they are saved.

    mixed_precision: compute in bfloat16 where torch holds that to be safe; three times as fast on
        a processor that has bfloat16 instructions. On one that has none it is float32 as without.

    The transformer and the tokenizer are set later (``load``), since weights come with training or
    from disk. Both are None until then.
    """

    def __init__(self, *, mixed_precision: bool):
        super().__init__()
        self.mixed_precision = mixed_precision
        # Whether training keeps of a batch its inputs alone, and computes it again when its
        # gradient comes (gradient caching): 11 to 20 % more time, and memory for one batch.
        self.gradient_caching = False
        self.transformer: nn.Module | None = None
        self.tokenizer: Tokenizer | None = None
        # In place of torch in inference: ids, mask, segments, wanted -> states
        # (``onnx_states.OnnxStates``). Set for the time of a call, and so never saved or copied.
        self.computed_by: Callable[..., Tensor] | None = None

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        """Take a Hugging Face BERT and its tokenizer.

        Raises PelError unless its positions are embedded (``last_hidden_states`` knows no others).
        """
        kind = getattr(transformer.config, "position_embedding_type", "absolute")
        if kind != "absolute":
            raise PelError(
                f'the encoder has position embeddings of type "{kind}"',
                'choose one with "absolute"',
            )
        transformer.pooler = None  # its weights would be kept and never trained
        self.transformer = transformer
        self.tokenizer = tokenizer

    @property
    def width(self) -> int:
        """Length of the embeddings and the states."""
        return self.transformer.config.hidden_size

    @property
    def n_outputs(self) -> int:
        """How many numbers it gives for an input."""
        raise NotImplementedError

    @property
    def position_limit(self) -> int:
        """The most tokens of an input."""
        return self.transformer.config.max_position_embeddings

    def set_dropout(self, rate: float) -> None:
        """Set the rate of every dropout layer; attention has none (``last_hidden_states``)."""
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = rate

    def states(
        self,
        ids: Tensor,
        mask: Tensor,
        perturbation: Tensor,
        segments: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Last hidden states, float32 [n, t, d].

        ids: int64 [n, t]; mask: bool [n, t]. segments: int64 [n, t], None for zeros.
        wanted: bool [n, t], the tokens whose states are to be had; the others' are 0, and the last
            layer is not computed for them. None for all.
        perturbation: float32 [n, t, d], or [1, 1, 1] for none. It is added to the composite input
            embeddings (word + position + segment): BERT sums the three, so adding to the word
            embedding adds to the sum. Its gradient is the gradient with respect to them.
        """
        if self.computed_by is not None and not self.training:
            return self.computed_by(ids, mask, segments, wanted)
        inputs = ids, mask, perturbation, segments, wanted
        if self.training and self.gradient_caching:
            return checkpoint(self._states, *inputs, use_reentrant=False)
        return self._states(*inputs)

    def _states(
        self,
        ids: Tensor,
        mask: Tensor,
        perturbation: Tensor,
        segments: Tensor | None,
        wanted: Tensor | None,
    ) -> Tensor:
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
        """torch's own choice, but for training with short inputs on a CPU: there the backward pass
        of its fused attention takes twice the time of the plain one."""
        if self.training and device.type == "cpu" and length < _LONG:
            return sdpa_kernel(SDPBackend.MATH)
        return nullcontext()

    def description(self) -> dict[str, str]:
        """The transformer's configuration and the tokenizer, both JSON: all that decides vectors
        beside the weights. {} without weights."""
        if self.transformer is None:
            return {}
        config = {name: getattr(self.transformer.config, name) for name in _ARCHITECTURE}
        return {"config": json.dumps(config), "tokenizer": self.tokenizer.to_str()}

    def weights(self) -> dict[str, Tensor]:
        """Weights, by the names that Hugging Face gives those of its transformer."""
        return {_short(name): weight for name, weight in self.state_dict().items()}

    def restore(self, description: dict[str, str], weights: dict[str, Tensor]) -> None:
        """Take what the two gave; needs no network. Raises RuntimeError for another's weights."""
        transformer = build_transformer(**json.loads(description["config"]))
        self.load(transformer, Tokenizer.from_str(description["tokenizer"]))
        names = {_short(name): name for name in self.state_dict()}
        self.load_state_dict({names.get(k, k): v for k, v in weights.items()}, assign=True)


def _short(name: str) -> str:
    return name.removeprefix("transformer.")


def mean_over(hidden: Tensor, mask: Tensor) -> Tensor:
    """Mean of hidden [n, t, d] over the tokens where mask [n, t] is true: [n, d]."""
    weight = mask.to(hidden.dtype)
    return (hidden * weight.unsqueeze(-1)).sum(1) / weight.sum(1, keepdim=True)


def build_transformer(**config) -> nn.Module:
    """A BERT with random weights, of the given Hugging Face configuration."""
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**config), add_pooling_layer=False)


def with_layers(transformer: nn.Module, n: int) -> nn.Module:
    """The BERT with n of its layers alone, spread evenly from the first to the last.

    Raises PelError unless n is between 1 and the number of its layers.
    """
    layers = transformer.encoder.layer
    if not 1 <= n <= len(layers):
        raise PelError(
            f"{n} layers of an encoder that has {len(layers)}", f"choose from 1 to {len(layers)}"
        )
    kept = torch.linspace(0, len(layers) - 1, n).round().int().tolist()
    transformer.encoder.layer = nn.ModuleList(layers[i] for i in kept)
    transformer.config.num_hidden_layers = n
    return transformer


@cache
def has_fast_bfloat16(device_type: str) -> bool:
    """Whether the device computes in bfloat16 by instructions of its own.

    A processor without them does it many times more slowly than in float32 (7 times, measured), and
    so do GPUs before Ampere, such as a V100.
    """
    if device_type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device_type != "cpu" or not hasattr(torch.cpu, "get_capabilities"):
        return True
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in _BFLOAT16_INSTRUCTIONS)
