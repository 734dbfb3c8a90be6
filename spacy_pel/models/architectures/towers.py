"""Towers: thinc models around the torch modules in ``models/``.

A tower returns a numpy array on any device. Its functions are defined at module level, so that spawned
worker processes can unpickle it.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from math import ceil
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from thinc.api import Model, PyTorchShim
from thinc.util import get_torch_default_device
from tokenizers import Tokenizer
from torch import nn

from ...errors import PelError
from ...text.mention_inputs import DocumentSpans
from ...text.token_inputs import PAD, EncoderInputs
from ..bert import MIN_ROWS, with_layers
from ..encoders import one_torch_thread
from ..packed_weights import Packable, Packed, pack, unpack

# The maximum number of tokens per pass, padding included: enough to keep a GPU busy. On a CPU, more than
# 1,024 are no faster and hold more padding. In inference on a CPU each core has its own passes, and the
# inputs set their size.
BATCH_TOKENS = 4096
CPU_TOKENS = 1024
MAX_CONTEXT = 512  # tokens that a token of a shared document attends to

AnyModel = Model[Any, Any]
# See ``make_tower``.
Tower = Model[Any, np.ndarray]
Backprop = Callable[[np.ndarray], list[np.ndarray]]


class Encoders(NamedTuple):
    """The initial weights of a model: the BERTs of both towers, which may be one, and their tokenizer."""

    mention: nn.Module
    entity: nn.Module
    tokenizer: Tokenizer


# Makes the encoders from texts, from which it may learn a vocabulary.
EncoderSource = Callable[[Iterable[str]], Encoders]


def no_source(texts: Iterable[str]) -> NoReturn:
    """Raise PelError: a model that was loaded with its weights is not initialized again."""
    raise PelError(
        "the encoder is already trained and is not initialised again",
        'to continue its training, give its pipeline as "source" in the config; for a new retriever '
        "give it as the path of its encoder, @misc = spacy-pel.TrainedEncoder.v1",
    )


def make_tower(
    encoder: nn.Module,
    name: str = "tower",
    forward: Callable[..., Any] | None = None,
    *,
    init: Callable[..., AnyModel] | None = None,
    attrs: dict[str, Any] | None = None,
    layers: Sequence[AnyModel] = (),
) -> Tower:
    """Wrap a torch module as a thinc model.

    A tower reads ``EncoderInputs`` and returns float32 [n, ``encoder.n_outputs``] in the order of the
    outputs. Its backprop callback takes the gradient of these. It returns the gradient with respect to
    the perturbation of each input, or [] without perturbations.

    Args:
        encoder: A module of ``models.encoders``.
        name: The name of the model.
        forward: Replaces the forward function, for other inputs.
        init, attrs, layers: Those of thinc's ``Model``.
    """
    return Model(
        name,
        forward or _tower_forward,
        init=init,
        attrs=attrs or {},
        layers=layers,
        shims=[PyTorchShim(encoder, serialize_model=_to_bytes, deserialize_model=_from_bytes)],
    )


def _to_bytes(encoder: Packable) -> bytes:
    return pack([encoder], {})


def _from_bytes(encoder: Packable, packed: bytes, device: torch.device) -> Packable:
    unpack(packed).fill([encoder], device)
    return encoder


def encoder_of(tower: Tower) -> Any:
    """Return the torch module inside a tower, a module of ``models.encoders``."""
    return tower.shims[0]._model


def towers_of(model: AnyModel) -> list[Tower]:
    """Return the towers of a retriever, or a model that is a tower."""
    return [model] if model.shims else model.layers


def load_encoder(
    source: EncoderSource,
    mention_layers: int | None,
    model: AnyModel,
    X: Iterable[str],
    Y: object = None,
) -> AnyModel:
    """Initialize each tower of a model with a copy of the weights of a source.

    Args:
        source: Makes the encoders.
        mention_layers: The number of layers of the first tower; None: all.
        model: The model, which is changed.
        X: Texts from which a vocabulary may be learned.
        Y: Unused; thinc's signature.
    """
    encoders = source(X)
    for tower, transformer in zip(towers_of(model), (encoders.mention, encoders.entity)):
        copied = deepcopy(transformer)
        if tower is towers_of(model)[0] and mention_layers is not None:
            copied = with_layers(copied, mention_layers, spread=True)
        encoder_of(tower).load(copied, encoders.tokenizer)
        encoder_of(tower).to(get_torch_default_device())
    return model


def pack_model(model: AnyModel, settings: dict[str, Any] | None = None) -> bytes:
    """Return the weights and the settings of a model as bytes; by default its attributes."""
    settings = dict(model.attrs) if settings is None else settings
    return pack([encoder_of(tower) for tower in towers_of(model)], settings)


def unpack_model(packed: Packed, make: Callable[..., AnyModel]) -> AnyModel:
    """Restore a model from ``pack_model``.

    Args:
        packed: A file or its bytes.
        make: Makes a model without weights from an ``EncoderSource`` and the settings.

    Raises:
        PelError: The file is damaged or of another kind.
    """
    contents = unpack(packed)
    model = make(no_source, **contents.settings)
    contents.fill([encoder_of(tower) for tower in towers_of(model)], get_torch_default_device())
    return model


def is_initialized(model: AnyModel) -> bool:
    """Tell whether the towers of a model have weights."""
    return bool(encoder_of(towers_of(model)[-1]).is_loaded)


def set_dropout(model: AnyModel, rate: float) -> None:
    """Set the dropout of torch, which thinc's ``set_dropout_rate`` does not reach."""
    for tower in towers_of(model):
        for module in encoder_of(tower).modules():
            if isinstance(module, nn.Dropout):
                module.p = rate


def check_choice(setting: str, value: str, *choices: str) -> None:
    """Raise PelError if the value of a setting is none of its choices."""
    if value not in choices:
        *first, last = (f'"{choice}"' for choice in choices)
        listed = " or ".join([", ".join(first), last] if first else [last])
        raise PelError(f'unknown {setting} "{value}"', f"choose {listed}")


def check_length(setting: str, tokens: int, minimum: int) -> None:
    """Raise PelError if the value of a setting is below its minimum."""
    if tokens < minimum:
        raise PelError(f"{setting} is {tokens} tokens", f"set it to {minimum} or more")


def _tower_forward(
    model: Tower, inputs: EncoderInputs, is_train: bool
) -> tuple[np.ndarray, Backprop]:
    """Encode inputs in batches of similar length; see ``make_tower``.

    In inference on a CPU each core has its own batches: threads that share a batch would wait for each
    other after every layer.
    """
    encoder, windows = encoder_of(model), inputs.windows
    lengths = np.array([len(window.ids) for window in windows], dtype=np.int64)
    n_outputs = sum(len(window.outputs) for window in windows)
    outputs = np.empty((n_outputs, encoder.n_outputs), dtype=np.float32)
    device = next(encoder.parameters()).device
    on_cpu = device.type == "cpu"
    n_threads = torch.get_num_threads() if on_cpu and not is_train else 1
    max_tokens = (CPU_TOKENS if is_train else inputs.core_tokens) if on_cpu else BATCH_TOKENS
    if encoder.computed_by is not None:  # inputs are computed one by one, and share the other work
        max_tokens = max(max_tokens, CPU_TOKENS)
    groups = groups_by_length(lengths, max_tokens)
    passes = []

    def encode(group: np.ndarray) -> None:
        padded = inputs.padded(group, encoder.tokenizer.token_to_id(PAD), MIN_ROWS)
        arrays = {"perturbation": np.zeros((1, 1, 1), dtype=np.float32), **padded}
        arguments = {name: torch.as_tensor(x, device=device) for name, x in arrays.items()}
        arguments["perturbation"].requires_grad_(is_train and "perturbation" in padded)
        places = np.concatenate([windows[i].outputs for i in group])
        with torch.inference_mode(not is_train):
            vectors = encoder(**arguments)
        outputs[places] = vectors.detach().cpu().numpy()
        if is_train:
            passes.append((group, places, vectors, arguments["perturbation"]))

    set_training(encoder, is_train)
    with one_torch_thread() if n_threads > 1 else nullcontext():
        if n_threads == 1 or len(groups) < 2:
            for group in groups:
                encode(group)
        else:  # threads end with the call; after a fork, a process would wait for them forever
            begin = partial(torch.set_num_threads, 1)
            with ThreadPoolExecutor(min(n_threads, len(groups)), initializer=begin) as pool:
                list(pool.map(encode, groups))

    def backprop(d_outputs: np.ndarray) -> list[np.ndarray]:
        d_perturbations: dict[int, np.ndarray] = {}
        for group, places, vectors, added in passes:
            vectors.backward(torch.as_tensor(d_outputs[places], device=device))
            if added.grad is not None:
                d_perturbations.update(zip(group.tolist(), added.grad.float().cpu().numpy()))
        return [d_perturbations[i][: lengths[i]] for i in sorted(d_perturbations)]

    return outputs, backprop


def pool_states(
    model: Tower, documents: Sequence[DocumentSpans], is_train: bool
) -> tuple[np.ndarray, Backprop]:
    """Pool the mentions of all documents at once: float32 [n, n_outputs], in the mentions' order.

    A document of more than ``MAX_CONTEXT`` tokens is read in parts of equal length, since attention takes
    quadratic memory. The callback adds the gradient with respect to the states to the gradients of the
    documents.
    """
    encoder = encoder_of(model)
    if not documents:
        return np.empty((0, encoder.n_outputs), dtype=np.float32), lambda _: []
    all_states: list[Any] = [spans.document.states for spans in documents]
    firsts = np.cumsum([0, *map(len, all_states)])
    states: np.ndarray = np.concatenate(all_states)
    spans = np.concatenate([d.spans + first for d, first in zip(documents, firsts)])
    order = np.concatenate([document.mentions for document in documents])
    lengths = [
        len(part)
        for of_document in all_states
        for part in np.array_split(of_document, max(1, ceil(len(of_document) / MAX_CONTEXT)))
    ]
    device = next(encoder.parameters()).device
    inputs, *others = (
        torch.as_tensor(array, device=device) for array in (states, spans, np.array(lengths))
    )
    set_training(encoder, is_train)
    with torch.inference_mode(not is_train), nullcontext() if is_train else one_torch_thread():
        vectors = encoder(inputs.requires_grad_(is_train), *others)
    outputs = np.empty(vectors.shape, dtype=np.float32)
    outputs[order] = vectors.detach().cpu().numpy()

    def backprop(d_outputs: np.ndarray) -> list[np.ndarray]:
        vectors.backward(torch.as_tensor(d_outputs[order], device=device))
        assert inputs.grad is not None  # it is a leaf
        d_states = np.split(inputs.grad.cpu().numpy(), firsts[1:-1])
        for spans, gradient in zip(documents, d_states):
            spans.document.gradient += gradient
        return []

    return outputs, backprop


def set_training(encoder: nn.Module, is_train: bool) -> None:
    """Set the training mode of an encoder, if it differs: setting it costs a tenth of encoding a sentence."""
    if any(module.training != is_train for module in encoder.modules()):
        encoder.train(is_train)


def groups_by_length(lengths: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Group inputs of similar length, shortest first.

    Args:
        lengths: int64 [n].
        max_tokens: The maximum number of tokens per group, padding included. A longer input is a group.
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
