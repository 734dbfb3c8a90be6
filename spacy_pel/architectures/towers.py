"""thinc wrappers of the torch modules in ``models/`` that read token ids.

What a module gives leaves its tower as a numpy array wherever it ran; losses, search and order are
numpy's and FAISS's business from there on.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Callable, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from thinc.api import ArgsKwargs, Model, PyTorchWrapper_v3
from thinc.util import get_torch_default_device

from ..inputs import TokenBatch, TokenIds, batches_by_length, pad
from ..models.bert import BertEncoder, with_layers
from ..windows import Window, WindowBatch, pad_windows
from .sources import EncoderSource

# Tokens of one pass through a tower, padding counted: enough to keep two cores or a GPU busy.
BATCH_TOKENS = 4096
# With fewer, the last bits of torch's sums depend on its number of threads.
LEAST_TOKENS = 16


class TowerInputs(NamedTuple):
    """What a tower reads.

    tokens: the inputs, all of one kind. perturbations: None, or for each input a float32 [t, d] to
    be added to its composite embeddings; then the backward pass gives the gradient with respect to
    each.
    """

    tokens: Union[Sequence[TokenIds], Sequence[Window]]
    perturbations: Optional[Sequence[np.ndarray]] = None


Tower = Model[TowerInputs, np.ndarray]


def make_tower(encoder: BertEncoder) -> Tower:
    """A tower around a torch module, which gives ``encoder.n_outputs`` numbers for an input, or for
    each mention of a window."""
    wrapper = PyTorchWrapper_v3(
        encoder,
        convert_inputs=_to_torch,
        convert_outputs=_to_numpy,
        serialize_model=BertEncoder.to_bytes,
        deserialize_model=BertEncoder.from_bytes,
    )
    return Model("tower", _tower_forward, layers=[wrapper])


def encoder_of(tower: Tower) -> BertEncoder:
    """The torch module inside a tower."""
    return tower.layers[0].shims[0]._model


def load_encoder(source: EncoderSource) -> Callable[..., Model]:
    """The ``init`` of a model whose layers are towers: all start from the source's weights."""
    return partial(_load_encoder, source)


def is_initialized(model: Model) -> bool:
    """Whether the towers of the model have weights."""
    return encoder_of(model.layers[0]).transformer is not None


def set_dropout(model: Model, rate: float) -> None:
    """Set torch's dropout, which thinc's ``set_dropout_rate`` does not reach."""
    for tower in model.layers:
        encoder_of(tower).set_dropout(rate)


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
) -> Tuple[np.ndarray, Callable[[np.ndarray], List[np.ndarray]]]:
    """Encode in batches of inputs of like length.

    Gives float32 [n, n_outputs] in the order of the inputs, or of the mentions of windows; the
    callback takes their gradient and gives the gradient with respect to each perturbation, or []
    where there are none.
    """
    wrapper = model.layers[0]
    encoder = encoder_of(model)
    pad_id = encoder.tokenizer.token_to_id("[PAD]")
    tokens, perturbations = inputs
    groups = batches_by_length(tokens, BATCH_TOKENS)
    rows = [_rows(tokens, group) for group in groups]
    outputs = np.empty((sum(map(len, rows)), encoder.n_outputs), dtype=np.float32)
    callbacks = []
    for group, places in zip(groups, rows):
        batch = _padded([tokens[i] for i in group], pad_id)
        added = None
        if perturbations is not None:
            added = _pad_rows([perturbations[i] for i in group], batch.ids.shape[1])
        outputs[places], callback = wrapper((batch, added), is_train)
        callbacks.append(callback)

    def backprop(d_outputs: np.ndarray) -> List[np.ndarray]:
        d_perturbations: List[np.ndarray] = [None] * len(tokens)  # type: ignore[list-item]
        for group, places, callback in zip(groups, rows, callbacks):
            d_added = callback(d_outputs[places])
            if d_added is not None:
                for i, gradient in zip(group, d_added):
                    d_perturbations[i] = gradient[: len(tokens[i].ids)]
        return d_perturbations if perturbations is not None else []

    return outputs, backprop


def _rows(tokens: Union[Sequence[TokenIds], Sequence[Window]], group: np.ndarray) -> np.ndarray:
    """Which outputs a group of the inputs gives, in their order."""
    if isinstance(tokens[group[0]], Window):
        return np.concatenate([tokens[i].mentions for i in group])
    return group


def _padded(
    inputs: Union[Sequence[TokenIds], Sequence[Window]], pad_id: int
) -> Union[TokenBatch, WindowBatch]:
    padded = pad_windows if isinstance(inputs[0], Window) else pad
    return padded(inputs, pad_id, LEAST_TOKENS)


def _to_torch(
    model: Model,
    inputs: Tuple[Union[TokenBatch, WindowBatch], Optional[np.ndarray]],
    is_train: bool,
):
    batch, added = inputs
    device = model.shims[0].device
    arguments = {k: torch.as_tensor(v, device=device) for k, v in batch._asdict().items()}
    if added is None:
        arguments["perturbation"] = torch.zeros((1, 1, 1), device=device)
    else:
        arguments["perturbation"] = torch.tensor(added, device=device, requires_grad=is_train)

    def gradient_of_perturbation(gradients: ArgsKwargs) -> Optional[np.ndarray]:
        return None if added is None else gradients.kwargs["perturbation"].float().cpu().numpy()

    return ArgsKwargs(args=(), kwargs=arguments), gradient_of_perturbation


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
