"""thinc wrappers of ``models/``: the bi-encoder that the pipeline trains, saves and loads.

A tower reads token ids and gives vectors. Vectors leave a tower as numpy arrays wherever it ran;
scores, losses and search are numpy's and FAISS's business from there on.
"""

from functools import partial
from typing import Callable, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from thinc.api import ArgsKwargs, Model, PyTorchWrapper_v3
from thinc.util import get_torch_default_device
from tokenizers import AddedToken, Tokenizer

from .errors import PelError
from .inputs import (
    MENTION_END,
    MENTION_START,
    InputBuilder,
    TokenBatch,
    TokenIds,
    batches_by_length,
    pad,
    train_tokenizer,
)
from .models.encoder import TextEncoder, build_transformer

# Tokens of one pass through a tower, padding counted: enough to keep two cores or a GPU busy.
BATCH_TOKENS = 4096
# With fewer, the last bits of torch's sums depend on its number of threads.
LEAST_TOKENS = 16


class TowerInputs(NamedTuple):
    """What a tower reads.

    tokens: the inputs. perturbations: None, or for each input a float32 [t, d] to be added to its
    composite embeddings; then the backward pass gives the gradient with respect to each.
    """

    tokens: Sequence[TokenIds]
    perturbations: Optional[Sequence[np.ndarray]] = None


Tower = Model[TowerInputs, np.ndarray]
# From texts to learn a vocabulary from, to (transformer, tokenizer).
EncoderSource = Callable[[Iterable[str]], Tuple[torch.nn.Module, Tokenizer]]


def BiEncoder(
    encoder: EncoderSource,
    shared: bool,
    pooling: str,
    similarity: str,
    mention_length: int,
    entity_length: int,
    mixed_precision: bool,
) -> Model:
    """Retriever: a mention tower and an entity tower (PEL, section 5.2).

    encoder: where the weights come from at initialisation.
    shared: one tower for both sides, or two that start from the same weights.
    pooling: "mean" over all tokens, "focus" over those of the mention or title, or "both".
    similarity: "cosine" (vectors of length 1) or "dot".
    mention_length, entity_length: the most tokens of an input.
    mixed_precision: bfloat16 where it is safe, on processors that have it: a large gain there.
    Raises PelError on an unknown pooling or similarity.

    ``initialize(X=texts)`` fetches the weights. Input and output are the towers' (``tower``).
    """
    if pooling not in ("mean", "focus", "both"):
        raise PelError(f'unknown pooling "{pooling}"; choose "mean", "focus" or "both"')
    if similarity not in ("cosine", "dot"):
        raise PelError(f'unknown similarity "{similarity}"; choose "cosine" or "dot"')
    attrs = {
        "shared": shared,
        "pooling": pooling,
        "similarity": similarity,
        "mention_length": mention_length,
        "entity_length": entity_length,
        "mixed_precision": mixed_precision,
    }
    make = partial(_make_tower, pooling, similarity == "cosine", mixed_precision)
    towers = [make()] if shared else [make(), make()]
    return Model(
        "biencoder",
        _refuse_forward,
        init=partial(_load_encoder, encoder),
        layers=towers,
        refs={"mention": towers[0], "entity": towers[-1]},
        attrs=attrs,
    )


def PretrainedEncoder(name: str) -> EncoderSource:
    """A Hugging Face encoder of BERT architecture, by hub name or path.

    Loads (and, for a hub name, downloads) when the pipeline is initialised, never later: the
    weights travel with the pipeline.
    """
    return partial(_pretrained, name)


def ScratchEncoder(
    layers: int, width: int, heads: int, vocab_size: int, max_tokens: int
) -> EncoderSource:
    """A small BERT with random weights, and a WordPiece vocabulary learned from the KB and corpus.

    layers, width, heads: its size. vocab_size: the most word pieces, if the alphabet alone does not
    take more. max_tokens: its positions.
    """
    return partial(_scratch, layers, width, heads, vocab_size, max_tokens)


def encoder_of(tower: Tower) -> TextEncoder:
    """The torch module inside a tower."""
    return tower.layers[0].shims[0]._model


def settings(biencoder: Model) -> dict:
    """The arguments of ``BiEncoder`` but for the source of weights, as plain data."""
    return dict(biencoder.attrs)


def from_settings(settings: dict) -> Model:
    """A bi-encoder without weights, to be filled by ``from_bytes``."""
    return BiEncoder(_no_source, **settings)


def is_initialized(biencoder: Model) -> bool:
    """Whether the towers have weights."""
    return encoder_of(biencoder.get_ref("mention")).transformer is not None


def input_builder(biencoder: Model) -> InputBuilder:
    """The builder of inputs for both towers; they share a tokenizer."""
    encoder = encoder_of(biencoder.get_ref("mention"))
    attrs = biencoder.attrs
    return InputBuilder(
        encoder.tokenizer, attrs["mention_length"], attrs["entity_length"], encoder.position_limit
    )


def set_dropout(biencoder: Model, rate: float) -> None:
    """Set torch's dropout, which thinc's ``set_dropout_rate`` does not reach."""
    for tower in biencoder.layers:
        encoder_of(tower).set_dropout(rate)


def _make_tower(pooling: str, normalize: bool, mixed_precision: bool) -> Tower:
    encoder = TextEncoder(pooling=pooling, normalize=normalize, mixed_precision=mixed_precision)
    wrapper = PyTorchWrapper_v3(
        encoder,
        convert_inputs=_to_torch,
        convert_outputs=_to_numpy,
        serialize_model=TextEncoder.to_bytes,
        deserialize_model=TextEncoder.from_bytes,
    )
    return Model("tower", _tower_forward, layers=[wrapper])


def _tower_forward(
    model: Tower, inputs: TowerInputs, is_train: bool
) -> Tuple[np.ndarray, Callable[[np.ndarray], List[np.ndarray]]]:
    """Encode in batches of inputs of like length.

    Gives vectors float32 [n, d] in the order of the inputs; the callback takes their gradient and
    gives the gradient with respect to each perturbation, or [] where there are none.
    """
    wrapper = model.layers[0]
    encoder = encoder_of(model)
    pad_id = encoder.tokenizer.token_to_id("[PAD]")
    tokens, perturbations = inputs
    groups = batches_by_length(tokens, BATCH_TOKENS)
    vectors = np.empty((len(tokens), encoder.width), dtype=np.float32)
    callbacks = []
    for group in groups:
        batch = pad([tokens[i] for i in group], pad_id, LEAST_TOKENS)
        added = None
        if perturbations is not None:
            added = _pad_rows([perturbations[i] for i in group], batch.ids.shape[1])
        vectors[group], callback = wrapper((batch, added), is_train)
        callbacks.append(callback)

    def backprop(d_vectors: np.ndarray) -> List[np.ndarray]:
        d_perturbations: List[np.ndarray] = [None] * len(tokens)  # type: ignore[list-item]
        for group, callback in zip(groups, callbacks):
            d_added = callback(d_vectors[group])
            if d_added is not None:
                for i, gradient in zip(group, d_added):
                    d_perturbations[i] = gradient[: len(tokens[i].ids)]
        return d_perturbations if perturbations is not None else []

    return vectors, backprop


def _to_torch(model: Model, inputs: Tuple[TokenBatch, Optional[np.ndarray]], is_train: bool):
    batch, added = inputs
    device = model.shims[0].device
    arrays = [torch.as_tensor(array, device=device) for array in batch]
    if added is None:
        perturbation = torch.zeros((1, 1, 1), device=device)
    else:
        perturbation = torch.tensor(added, device=device, requires_grad=is_train)

    def gradient_of_perturbation(gradients: ArgsKwargs) -> Optional[np.ndarray]:
        return None if added is None else gradients.args[-1].float().cpu().numpy()

    return ArgsKwargs(args=(*arrays, perturbation), kwargs={}), gradient_of_perturbation


def _to_numpy(model: Model, inputs_outputs, is_train: bool):
    _, vectors = inputs_outputs

    def gradient_to_torch(d_vectors: np.ndarray) -> ArgsKwargs:
        gradient = torch.as_tensor(d_vectors, device=vectors.device)
        return ArgsKwargs(args=([vectors],), kwargs={"grad_tensors": [gradient]})

    return vectors.detach().cpu().numpy(), gradient_to_torch


def _pad_rows(arrays: Sequence[np.ndarray], length: int) -> np.ndarray:
    """float32 [n, length, d] of arrays [t, d]."""
    padded = np.zeros((len(arrays), length, arrays[0].shape[1]), dtype=np.float32)
    for row, array in zip(padded, arrays):
        row[: len(array)] = array
    return padded


def _refuse_forward(model: Model, X, is_train: bool):
    raise NotImplementedError('use a tower: model.get_ref("mention") or model.get_ref("entity")')


def _load_encoder(source: EncoderSource, model: Model, X: Iterable[str], Y=None) -> Model:
    device = get_torch_default_device()
    transformer, tokenizer = source(X)
    weights = transformer.state_dict()
    for position, tower in enumerate(model.layers):
        if position:  # a second tower of its own, started from the same weights
            transformer = type(transformer)(transformer.config)
            transformer.pooler = None
            transformer.load_state_dict({k: v for k, v in weights.items() if "pooler" not in k})
        encoder_of(tower).load(transformer, tokenizer)
        encoder_of(tower).to(device)
    return model


def _no_source(texts: Iterable[str]):
    raise PelError(
        "the bi-encoder is already trained and is not initialised again; to train it further, give "
        'its pipeline as its "source" in the config'
    )


def _pretrained(name: str, texts: Iterable[str]) -> Tuple[torch.nn.Module, Tokenizer]:
    # Imported here: it takes seconds, and a saved pipeline does not need it.
    from spacy_transformers.layers.transformer_model import huggingface_from_pretrained

    try:
        loaded = huggingface_from_pretrained(name, {"use_fast": True}, {})
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise PelError(
            f'cannot load the encoder "{name}": {reason}; give a Hugging Face name or the path of '
            "a folder with config.json, tokenizer.json and model.safetensors"
        ) from error
    transformer = loaded.transformer
    if transformer.config.model_type != "bert":
        raise PelError(
            f'the encoder "{name}" is of type "{transformer.config.model_type}"; choose one of '
            "BERT architecture"
        )
    tokenizer = Tokenizer.from_str(loaded.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    markers = [AddedToken(t, special=True, normalized=False) for t in (MENTION_START, MENTION_END)]
    tokenizer.add_special_tokens(markers)
    transformer.resize_token_embeddings(tokenizer.get_vocab_size(), mean_resizing=False)
    return transformer, tokenizer


def _scratch(
    layers: int, width: int, heads: int, vocab_size: int, max_tokens: int, texts: Iterable[str]
) -> Tuple[torch.nn.Module, Tokenizer]:
    tokenizer = train_tokenizer(_not_empty(texts), vocab_size)
    transformer = build_transformer(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=max_tokens,
        # BERT's 0.02 is for a width of 768. At this scale attention carries as much of the context
        # into a narrow network.
        initializer_range=0.02 * (768 / width) ** 0.5,
    )
    return transformer, tokenizer


def _not_empty(texts: Iterable[str]) -> Iterator[str]:
    """The texts; PelError if there are none, since no vocabulary can be learned from nothing."""
    empty = True
    for text in texts:
        empty = False
        yield text
    if empty:
        raise PelError("no texts to learn a vocabulary from; give a KB or training examples")
