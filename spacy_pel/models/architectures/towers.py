"""thinc wrappers of the torch modules in ``models/``, and what all architectures need of them.

Whatever device a module runs on, its tower gives a numpy array: numpy and FAISS do the rest. What
thinc's models hold is made by functions of a module, so that they can be pickled where worker
processes are not forked.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from thinc.api import Model, PyTorchShim
from thinc.util import get_torch_default_device
from tokenizers import Tokenizer
from torch import nn

from ...errors import PelError
from ...text.token_inputs import PAD, EncoderInputs
from ..bert import LEAST_ROWS, one_thread, with_layers
from ..encoders import BertEncoder
from ..packed_weights import Packed, pack, unpack

# The most tokens of a pass, padding included: enough to keep a GPU busy. On a CPU, more than 1,024 are
# no faster and hold more padding: a step of the demo's training then takes 15 % longer. In inference
# on a CPU each core has passes of its own, and the inputs say how many tokens those have.
BATCH_TOKENS = 4096
CPU_TOKENS = 1024

# See ``make_tower``.
Tower = Model[Any, np.ndarray]


class Encoders(NamedTuple):
    """What the towers of a model start from: two BERTs, which may be one object, and their tokenizer."""

    mention: nn.Module
    entity: nn.Module
    tokenizer: Tokenizer


# From texts, from which a vocabulary may be learned.
EncoderSource = Callable[[Iterable[str]], Encoders]


def no_source(texts: Iterable[str]):
    """The source of a model that was loaded. It has its weights and refuses to give others."""
    raise PelError(
        "the encoder is already trained and is not initialised again",
        "to train it further, give "
        'its pipeline as its "source" in the config, or for a new retriever as the path of its '
        "encoder, @misc = spacy-pel.TrainedEncoder.v1",
    )


def make_tower(
    encoder: nn.Module, name: str = "tower", forward: Callable | None = None, **of_model: Any
) -> Tower:
    """A tower around a torch module.

    It reads ``EncoderInputs`` and gives float32 [n, ``encoder.n_outputs``], in the order of the
    outputs. The callback of its training takes the gradient of these. It gives the gradient with
    respect to the perturbation of each input, or [] without perturbations. One with a ``forward`` of its
    own may read something else. ``of_model`` are arguments of thinc's ``Model``: a tower may be a whole
    model.
    """
    shim = PyTorchShim(encoder, serialize_model=_to_bytes, deserialize_model=_from_bytes)
    return Model(name, forward or _tower_forward, shims=[shim], **of_model)


def _to_bytes(encoder: nn.Module) -> bytes:
    return pack([encoder], {})


def _from_bytes(encoder: nn.Module, packed: bytes, device: torch.device) -> nn.Module:
    unpack(packed).fill([encoder], device)
    return encoder


def encoder_of(tower: Tower) -> BertEncoder:
    """The torch module inside a tower."""
    return tower.shims[0]._model


def towers_of(model: Model) -> list[Tower]:
    """The towers of a model: those of a retriever, or the model itself."""
    return [model] if model.shims else model.layers


def load_encoder(
    source: EncoderSource, mention_layers: int | None, model: Model, X: Iterable[str], Y=None
) -> Model:
    """The ``init`` of a model: each of its towers gets weights of its own from one source.

    ``mention_layers`` is the number of layers that the first tower takes; None for all.
    """
    encoders = source(X)
    for tower, transformer in zip(towers_of(model), (encoders.mention, encoders.entity)):
        own = deepcopy(transformer)
        if tower is towers_of(model)[0] and mention_layers is not None:
            own = with_layers(own, mention_layers, spread=True)
        encoder_of(tower).load(own, encoders.tokenizer)
        encoder_of(tower).to(get_torch_default_device())
    return model


def pack_model(model: Model, settings: dict[str, Any] | None = None) -> bytes:
    """The weights of a model, and the settings (its attributes) of ``make``."""
    settings = dict(model.attrs) if settings is None else settings
    return pack([encoder_of(tower) for tower in towers_of(model)], settings)


def unpack_model(packed: Packed, make: Callable[..., Model]) -> Model:
    """The model that ``pack_model`` packed; PelError if it is none.

    ``make`` gives a model without weights, from a source of its encoder and the settings.
    """
    contents = unpack(packed)
    model = make(no_source, **contents.settings)
    contents.fill([encoder_of(tower) for tower in towers_of(model)], get_torch_default_device())
    return model


def is_initialized(model: Model) -> bool:
    """Whether the towers of the model have weights."""
    return encoder_of(towers_of(model)[-1]).transformer is not None


def set_dropout(model: Model, rate: float) -> None:
    """Set the dropout of torch, which thinc's ``set_dropout_rate`` does not reach."""
    for tower in towers_of(model):
        for module in encoder_of(tower).modules():
            if isinstance(module, nn.Dropout):
                module.p = rate


def set_gradient_caching(model: Model, cached: bool) -> None:
    """Set whether training keeps nothing but the inputs, and computes the rest twice (``BertEncoder``)."""
    for tower in towers_of(model):
        encoder_of(tower).gradient_caching = cached


def check_choice(setting: str, value: str, *choices: str) -> None:
    """Raise PelError if a setting has none of its choices."""
    if value not in choices:
        *first, last = (f'"{choice}"' for choice in choices)
        listed = " or ".join([", ".join(first), last] if first else [last])
        raise PelError(f'unknown {setting} "{value}"', f"choose {listed}")


def check_length(setting: str, tokens: int, least: int) -> None:
    """Raise PelError if a setting allows fewer tokens than make sense."""
    if tokens < least:
        raise PelError(f"{setting} is {tokens} tokens", f"set it to {least} or more")


def _tower_forward(
    model: Tower, inputs: EncoderInputs, is_train: bool
) -> tuple[np.ndarray, Callable[[np.ndarray], list[np.ndarray]]]:
    """Encode in batches of inputs of similar length; see ``make_tower``.

    In inference on a CPU each core has batches of its own: kernels that share a batch wait for each
    other after every layer.
    """
    encoder, windows = encoder_of(model), inputs.windows
    lengths = np.array([len(window.ids) for window in windows], dtype=np.int64)
    n_outputs = sum(len(window.outputs) for window in windows)
    outputs = np.empty((n_outputs, encoder.n_outputs), dtype=np.float32)
    device = next(encoder.parameters()).device
    on_cpu = device.type == "cpu"
    n_threads = torch.get_num_threads() if on_cpu and not is_train else 1
    most = (CPU_TOKENS if is_train else inputs.core_tokens) if on_cpu else BATCH_TOKENS
    groups = groups_by_length(lengths, most)
    passes = []

    def encode(group: np.ndarray) -> None:
        padded = inputs.padded(group, encoder.tokenizer.token_to_id(PAD), LEAST_ROWS)
        arrays = {"perturbation": np.zeros((1, 1, 1), dtype=np.float32), **padded}
        arguments = {name: torch.as_tensor(x, device=device) for name, x in arrays.items()}
        arguments["perturbation"].requires_grad_(is_train and "perturbation" in padded)
        places = np.concatenate([windows[i].outputs for i in group])
        with torch.inference_mode(not is_train):
            found = encoder(**arguments)
        outputs[places] = found.detach().cpu().numpy()
        if is_train:
            passes.append((group, places, found, arguments["perturbation"]))

    set_training(encoder, is_train)
    with one_thread() if n_threads > 1 else nullcontext():
        if n_threads == 1 or len(groups) < 2:
            for group in groups:
                encode(group)
        else:  # the threads end with the call: after a fork, a process would wait for them forever
            begin = partial(torch.set_num_threads, 1)
            with ThreadPoolExecutor(min(n_threads, len(groups)), initializer=begin) as pool:
                list(pool.map(encode, groups))

    def backprop(d_outputs: np.ndarray) -> list[np.ndarray]:
        d_perturbations: dict[int, np.ndarray] = {}
        for group, places, found, added in passes:
            found.backward(torch.as_tensor(d_outputs[places], device=device))
            if added.requires_grad:
                d_perturbations.update(zip(group.tolist(), added.grad.float().cpu().numpy()))
        return [d_perturbations[i][: lengths[i]] for i in sorted(d_perturbations)]

    return outputs, backprop


def set_training(encoder: nn.Module, is_train: bool) -> None:
    """Set the mode of an encoder, if it has another: to set it takes a tenth of the time of a sentence."""
    if any(module.training != is_train for module in encoder.modules()):
        encoder.train(is_train)


def groups_by_length(lengths: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Group inputs by their lengths, int64 [n], so that little is padding; shorter ones come first.

    A group has ``max_tokens`` at most, padding included, or one input.
    """
    order = np.argsort(lengths, kind="stable")
    groups, first = [], 0
    for position, longest in enumerate(lengths[order].tolist()):
        if position > first and (position - first + 1) * longest > max_tokens:
            groups.append(order[first:position])
            first = position
    if len(order):
        groups.append(order[first:])
    return groups
