"""thinc wrappers of the torch modules in ``models/`` that read token ids.

What a module gives leaves its tower as a numpy array wherever it ran; losses, search and order are
numpy's and FAISS's business from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from thinc.api import ArgsKwargs, Model, PyTorchWrapper_v3
from thinc.util import get_torch_default_device
from torch import Tensor

from ..models.bert import BertEncoder, with_layers
from ..models.bert_layers import LEAST_ROWS
from ..models.packed_weights import Contents, Encoder, pack, unpack
from ..reading.document_windows import Window, WindowBatch, pad_windows
from ..reading.inputs import TokenBatch, TokenIds, batches_by_length, pad
from ..system.threads import in_threads
from .sources import EncoderSource

# Tokens of one pass through a tower, padding counted: enough to keep two cores or a GPU busy.
BATCH_TOKENS = 4096
# The same where each core has passes of its own, in inference on a CPU.
CORE_TOKENS = 1024


Inputs = Sequence[TokenIds] | Sequence[Window]
# Padded inputs, and their perturbations.
Batch = tuple[TokenBatch | WindowBatch, np.ndarray | None]


class TowerInputs(NamedTuple):
    """What a tower reads.

    tokens: the inputs, all of one kind. perturbations: None, or for each input a float32 [t, d] to
    be added to its composite embeddings; then the backward pass gives the gradient with respect to
    each.
    """

    tokens: Inputs
    perturbations: Sequence[np.ndarray] | None = None


Tower = Model[TowerInputs, np.ndarray]


def make_tower(encoder: BertEncoder) -> Tower:
    """A tower around a torch module, which gives ``encoder.n_outputs`` numbers for an input, or for
    each mention of a window."""
    return Model("tower", _tower_forward, layers=[wrapped(encoder, _to_torch)])


def wrapped(encoder: Encoder, convert_inputs: Callable) -> Model:
    """A torch module that gives one tensor as a thinc layer that gives a numpy array.

    convert_inputs: see ``PyTorchWrapper_v3``.
    """
    return PyTorchWrapper_v3(
        encoder,
        convert_inputs=convert_inputs,
        convert_outputs=_to_numpy,
        serialize_model=_to_bytes,
        deserialize_model=_from_bytes,
    )


def encoder_of(tower: Tower) -> BertEncoder:
    """The torch module inside a tower."""
    return tower.layers[0].shims[0]._model


def load_encoder(source: EncoderSource) -> Callable[..., Model]:
    """The ``init`` of a model whose layers are towers: all start from the source's weights."""
    return partial(_load_encoder, source)


def pack_model(model: Model) -> bytes:
    """The weights and the attributes of a model whose layers are towers (``models.packed_weights``)."""
    return pack([encoder_of(tower) for tower in model.layers], dict(model.attrs))


def fill_model(model: Model, contents: Contents) -> Model:
    """The model, with the weights that were packed."""
    contents.fill([encoder_of(tower) for tower in model.layers], get_torch_default_device())
    return model


def is_initialized(model: Model) -> bool:
    """Whether the towers of the model have weights."""
    return encoder_of(model.layers[-1]).transformer is not None


def set_dropout(model: Model, rate: float) -> None:
    """Set torch's dropout, which thinc's ``set_dropout_rate`` does not reach."""
    for tower in model.layers:
        encoder_of(tower).set_dropout(rate)


def set_gradient_caching(model: Model, cached: bool) -> None:
    """Set whether training keeps inputs alone and computes the rest twice (``BertEncoder``)."""
    for tower in model.layers:
        encoder_of(tower).gradient_caching = cached


def _to_bytes(encoder: Encoder) -> bytes:
    return pack([encoder], {})


def _from_bytes(encoder: Encoder, packed: bytes, device: torch.device) -> Encoder:
    unpack(packed).fill([encoder], device)
    return encoder


def _load_encoder(source: EncoderSource, model: Model, X: Iterable[str], Y=None) -> Model:
    device = get_torch_default_device()
    encoders = source(X)
    for tower, transformer in zip(model.layers, (encoders.mention, encoders.entity)):
        own = deepcopy(transformer)  # each with weights of its own
        n_layers = model.attrs.get("mention_layers")
        if tower is model.layers[0] and n_layers is not None:
            own = with_layers(own, n_layers)
        encoder_of(tower).load(own, encoders.tokenizer)
        encoder_of(tower).to(device)
    return model


def _tower_forward(
    model: Tower, inputs: TowerInputs, is_train: bool
) -> tuple[np.ndarray, Callable[[np.ndarray], list[np.ndarray]]]:
    """Encode in batches of inputs of like length.

    Gives float32 [n, n_outputs] in the order of the inputs, or of the mentions of windows; the
    callback takes their gradient and gives the gradient with respect to each perturbation, or []
    where there are none.
    """
    encoder = encoder_of(model)
    if not is_train:
        return _predicted(encoder, inputs), lambda d_outputs: []
    tokens, perturbations = inputs
    groups, rows, outputs = _planned(encoder, tokens, BATCH_TOKENS)
    callbacks = []
    for group, places in zip(groups, rows):
        outputs[places], callback = model.layers[0](_batch(encoder, inputs, group), is_train)
        callbacks.append(callback)

    def backprop(d_outputs: np.ndarray) -> list[np.ndarray]:
        d_perturbations: list[np.ndarray] = [None] * len(tokens)  # type: ignore[list-item]
        for group, places, callback in zip(groups, rows, callbacks):
            d_added = callback(d_outputs[places])
            if d_added is not None:
                for i, gradient in zip(group, d_added):
                    d_perturbations[i] = gradient[: len(tokens[i].ids)]
        return d_perturbations if perturbations is not None else []

    return outputs, backprop


def _predicted(encoder: BertEncoder, inputs: TowerInputs) -> np.ndarray:
    """The outputs of inference. On a CPU each core has batches of its own: kernels that share a
    batch wait for each other after every layer.

    thinc's wrapper is left out: it puts the module into training whenever a batch is done.
    """
    device = next(encoder.parameters()).device
    on_cpu = device.type == "cpu"
    n_threads = torch.get_num_threads() if on_cpu else 1
    groups, rows, outputs = _planned(encoder, inputs.tokens, _most_tokens(inputs.tokens, on_cpu))

    def fill(number: int) -> None:
        arguments = _arguments(_batch(encoder, inputs, groups[number]), device)
        with torch.inference_mode():
            outputs[rows[number]] = encoder(**arguments).cpu().numpy()

    encoder.eval()
    try:
        if encoder.computed_by is not None:
            torch.set_num_threads(1)  # others would only spin beside ONNX Runtime
        in_threads(fill, range(len(groups)), n_threads, partial(torch.set_num_threads, 1))
    finally:
        if n_threads > 1:
            torch.set_num_threads(n_threads)
    return outputs


def _most_tokens(tokens: Inputs, on_cpu: bool) -> int:
    """How many tokens a pass has at most; an input that has more has a pass of its own.

    On a CPU it is the same for any number of threads, as the last bits of a vector depend on what
    else is in its pass. A window, which is long, has one of its own: so its mentions have the same
    vectors, to the last bit, whatever other documents are read with it.
    """
    if not on_cpu:
        return BATCH_TOKENS
    return 1 if len(tokens) and isinstance(tokens[0], Window) else CORE_TOKENS


def _planned(
    encoder: BertEncoder, tokens: Inputs, max_tokens: int
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Groups of the inputs, of no more tokens each; which outputs each gives; and their array."""
    groups = batches_by_length(tokens, max_tokens)
    rows = [_rows(tokens, group) for group in groups]
    return groups, rows, np.empty((sum(map(len, rows)), encoder.n_outputs), dtype=np.float32)


def _rows(tokens: Inputs, group: np.ndarray) -> np.ndarray:
    """Which outputs a group of the inputs gives, in their order."""
    if isinstance(tokens[group[0]], Window):
        return np.concatenate([tokens[i].mentions for i in group])
    return group


def _batch(encoder: BertEncoder, inputs: TowerInputs, group: np.ndarray) -> Batch:
    """A group of the inputs, and their perturbations, padded."""
    tokens = [inputs.tokens[i] for i in group]
    padded = pad_windows if isinstance(tokens[0], Window) else pad
    batch = padded(tokens, encoder.tokenizer.token_to_id("[PAD]"), LEAST_ROWS)
    if inputs.perturbations is None:
        return batch, None
    return batch, _pad_rows([inputs.perturbations[i] for i in group], batch.ids.shape[1])


def _to_torch(model: Model, batch: Batch, is_train: bool):
    arguments = _arguments(batch, model.shims[0].device)
    is_perturbed = batch[1] is not None
    arguments["perturbation"].requires_grad_(is_train and is_perturbed)

    def gradient_of_perturbation(gradients: ArgsKwargs) -> np.ndarray | None:
        return gradients.kwargs["perturbation"].float().cpu().numpy() if is_perturbed else None

    return ArgsKwargs(args=(), kwargs=arguments), gradient_of_perturbation


def _arguments(batch: Batch, device: torch.device) -> dict[str, Tensor]:
    """The arguments of an encoder's ``forward``."""
    inputs, added = batch
    arguments = {k: torch.as_tensor(v, device=device) for k, v in inputs._asdict().items()}
    added = np.zeros((1, 1, 1), dtype=np.float32) if added is None else added
    return {**arguments, "perturbation": torch.as_tensor(added, device=device)}


def _to_numpy(model: Model, inputs_outputs, is_train: bool):
    _, outputs = inputs_outputs

    def gradient_to_torch(d_outputs: np.ndarray) -> ArgsKwargs:
        gradient = torch.as_tensor(d_outputs, device=outputs.device)
        return ArgsKwargs(args=([outputs],), kwargs={"grad_tensors": [gradient]})

    return outputs.detach().cpu().numpy(), gradient_to_torch


def _pad_rows(arrays: Sequence[np.ndarray], length: int) -> np.ndarray:
    """float32 [n, length, d] of arrays [t, d]."""
    padded = np.zeros((len(arrays), length, arrays[0].shape[1]), dtype=np.float32)
    for row, array in zip(padded, arrays):
        row[: len(array)] = array
    return padded
