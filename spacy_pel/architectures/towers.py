"""thinc wrappers of the torch modules in ``models/``, and what all architectures need of them.

Whatever device a module runs on, its tower gives a numpy array: numpy and FAISS do the rest. What
thinc's models hold is made by functions of a module, so that they can be pickled where worker
processes are not forked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from thinc.api import ArgsKwargs, Model, PyTorchWrapper_v3
from thinc.util import get_torch_default_device
from tokenizers import Tokenizer
from torch import Tensor, nn

from ..errors import PelError
from ..models.bert import LEAST_ROWS, with_layers
from ..models.encoders import BertEncoder
from ..models.packed_weights import Packed, pack, unpack
from ..reading.text_inputs import Batch, EncoderInputs, groups_by_length
from ..reading.word_pieces import PAD

# The most tokens of a pass, padding included: enough to keep a GPU busy. On a CPU, more than 1,024 are
# no faster and hold more padding: a step of the demo's training then takes 15 % longer. In inference
# on a CPU each core has passes of its own, and the inputs say how many tokens those have.
BATCH_TOKENS = 4096
CPU_TOKENS = 1024

# A tower around a BERT reads ``EncoderInputs``. A tower of another kind may read something else.
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


def make_tower(encoder: BertEncoder) -> Tower:
    """A tower around a torch module.

    It reads ``EncoderInputs`` and gives float32 [n, ``encoder.n_outputs``], in the order of the
    outputs. The callback of its training takes the gradient of these. It gives the gradient with
    respect to the perturbation of each input, or [] without perturbations.
    """
    return Model("tower", _tower_forward, layers=[wrapped(encoder, _to_torch)])


def one_tower(model: Model, inputs: EncoderInputs, is_train: bool):
    """The ``forward`` of a model that is a single tower."""
    return model.layers[0](inputs, is_train)


def wrapped(encoder: nn.Module, convert_inputs: Callable) -> Model:
    """A torch module that gives one tensor, as a thinc layer that gives a numpy array.

    ``convert_inputs`` is that of ``PyTorchWrapper_v3``.
    """
    return PyTorchWrapper_v3(
        encoder,
        convert_inputs=convert_inputs,
        convert_outputs=_to_numpy,
        serialize_model=_to_bytes,
        deserialize_model=_from_bytes,
    )


def _to_bytes(encoder: nn.Module) -> bytes:
    return pack([encoder], {})


def _from_bytes(encoder: nn.Module, packed: bytes, device: torch.device) -> nn.Module:
    unpack(packed).fill([encoder], device)
    return encoder


def encoder_of(tower: Tower) -> BertEncoder:
    """The torch module inside a tower."""
    return tower.layers[0].shims[0]._model


def load_encoder(source: EncoderSource, mention_layers: int | None = None) -> Callable[..., Model]:
    """The ``init`` of a model whose layers are towers: each gets weights of its own from one source.

    ``mention_layers`` is the number of layers that the first tower takes; None for all.
    """
    return partial(_load_encoder, source, mention_layers)


def _load_encoder(
    source: EncoderSource, mention_layers: int | None, model: Model, X: Iterable[str], Y=None
) -> Model:
    encoders = source(X)
    for tower, transformer in zip(model.layers, (encoders.mention, encoders.entity)):
        own = deepcopy(transformer)
        if tower is model.layers[0] and mention_layers is not None:
            own = with_layers(own, mention_layers, spread=True)
        encoder_of(tower).load(own, encoders.tokenizer)
        encoder_of(tower).to(get_torch_default_device())
    return model


def pack_model(model: Model, settings: dict[str, Any] | None = None) -> bytes:
    """The weights of a model whose layers are towers, and the settings (its attributes) of ``make``."""
    settings = dict(model.attrs) if settings is None else settings
    return pack([encoder_of(tower) for tower in model.layers], settings)


def unpack_model(packed: Packed, make: Callable[..., Model]) -> Model:
    """The model that ``pack_model`` packed; PelError if it is none.

    ``make`` gives a model without weights, from a source of its encoder and the settings.
    """
    contents = unpack(packed)
    model = make(no_source, **contents.settings)
    contents.fill([encoder_of(tower) for tower in model.layers], get_torch_default_device())
    return model


def is_initialized(model: Model) -> bool:
    """Whether the towers of the model have weights."""
    return encoder_of(model.layers[-1]).transformer is not None


def set_dropout(model: Model, rate: float) -> None:
    """Set the dropout of torch, which thinc's ``set_dropout_rate`` does not reach."""
    for tower in model.layers:
        encoder_of(tower).set_dropout(rate)


def set_gradient_caching(model: Model, cached: bool) -> None:
    """Set whether training keeps nothing but the inputs, and computes the rest twice (``BertEncoder``)."""
    for tower in model.layers:
        encoder_of(tower).gradient_caching = cached


def check_choice(setting: str, value: str, *choices: str) -> None:
    """Raise PelError if a setting has none of its choices."""
    if value not in choices:
        *quoted, last = (f'"{choice}"' for choice in choices)
        raise PelError(f'unknown {setting} "{value}"', f"choose {', '.join(quoted)} or {last}")


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
    encoder, lengths = encoder_of(model), inputs.lengths()
    n_outputs = len(inputs.outputs_of(np.arange(len(lengths))))
    outputs = np.empty((n_outputs, encoder.n_outputs), dtype=np.float32)
    device = next(encoder.parameters()).device
    on_cpu = device.type == "cpu"
    most = (CPU_TOKENS if is_train else inputs.core_tokens) if on_cpu else BATCH_TOKENS
    groups = groups_by_length(lengths, most)
    if not is_train:
        n_threads = torch.get_num_threads() if on_cpu else 1

        def fill(group: np.ndarray) -> None:
            # thinc's wrapper is left out: it puts the module into training after each batch.
            arguments = _arguments(_padded(encoder, inputs, group), device)
            with torch.inference_mode():
                outputs[inputs.outputs_of(group)] = encoder(**arguments).cpu().numpy()

        encoder.eval()
        try:
            if encoder.computed_by is not None:
                torch.set_num_threads(1)  # others would only spin beside ONNX Runtime
            if n_threads == 1 or len(groups) < 2:
                for group in groups:
                    fill(group)
            else:
                # Kernels are too small to use several threads well. The threads end here: after a fork,
                # a process would wait for them forever.
                alone = partial(torch.set_num_threads, 1)
                with ThreadPoolExecutor(min(n_threads, len(groups)), initializer=alone) as pool:
                    list(pool.map(fill, groups))
        finally:
            if n_threads > 1:
                torch.set_num_threads(n_threads)
        return outputs, lambda d_outputs: []
    passes = []
    for group in groups:
        places = inputs.outputs_of(group)
        outputs[places], callback = model.layers[0](_padded(encoder, inputs, group), is_train)
        passes.append((group, places, callback))

    def backprop(d_outputs: np.ndarray) -> list[np.ndarray]:
        d_perturbations: dict[int, np.ndarray] = {}
        for group, places, callback in passes:
            d_added = callback(d_outputs[places])
            if d_added is not None:
                d_perturbations.update(zip(group.tolist(), d_added))
        return [d_perturbations[i][: lengths[i]] for i in sorted(d_perturbations)]

    return outputs, backprop


def _padded(encoder: BertEncoder, inputs: EncoderInputs, group: np.ndarray) -> Batch:
    """A group of the inputs as the encoder reads them."""
    return inputs.padded(group, encoder.tokenizer.token_to_id(PAD), LEAST_ROWS)


def _to_torch(model: Model, padded: Batch, is_train: bool):
    arguments = _arguments(padded, model.shims[0].device)
    is_perturbed = "perturbation" in padded
    arguments["perturbation"].requires_grad_(is_train and is_perturbed)

    def gradient_of_perturbation(gradients: ArgsKwargs) -> np.ndarray | None:
        return gradients.kwargs["perturbation"].float().cpu().numpy() if is_perturbed else None

    return ArgsKwargs(args=(), kwargs=arguments), gradient_of_perturbation


def _arguments(padded: Batch, device: torch.device) -> dict[str, Tensor]:
    """The arguments of an encoder's ``forward``."""
    arrays = {"perturbation": np.zeros((1, 1, 1), dtype=np.float32), **padded}
    return {name: torch.as_tensor(array, device=device) for name, array in arrays.items()}


def _to_numpy(model: Model, inputs_outputs, is_train: bool):
    _, outputs = inputs_outputs

    def gradient_to_torch(d_outputs: np.ndarray) -> ArgsKwargs:
        gradient = torch.as_tensor(d_outputs, device=outputs.device)
        return ArgsKwargs(args=([outputs],), kwargs={"grad_tensors": [gradient]})

    return outputs.detach().cpu().numpy(), gradient_to_torch
