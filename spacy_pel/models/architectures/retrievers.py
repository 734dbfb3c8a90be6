"""The retrievers: how they are made, how they read mentions, and how they are saved.

An architecture is a registered function that calls ``make_retriever``. ``BiEncoder`` reads each mention in
its own text, ``DocumentEncoder`` reads a document once for all its mentions, and ``SharedEncoder`` uses the
states of another component of the pipeline.
"""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any, NoReturn

import numpy as np
import torch
from spacy.util import registry
from thinc.api import Model
from thinc.util import get_torch_default_device
from tokenizers import Tokenizer

from ...errors import PelError
from ...text.mention_inputs import (
    DocumentSpans,
    MarkedTextReader,
    MentionReader,
    SharedStatesReader,
    WindowReader,
)
from ..bert import one_torch_thread
from ..encoders import BertEncoder, SpanEncoder, TextEncoder
from ..packed_weights import Packed
from .towers import (
    AnyModel,
    Backprop,
    EncoderSource,
    Tower,
    check_choice,
    check_length,
    encoder_of,
    load_encoder,
    make_tower,
    no_source,
    pack_model,
    set_training,
    unpack_model,
)

MAX_CONTEXT = 512  # tokens that a token of a shared document attends to

# From spaCy's documents to the states of their tokens, [t, w].
Tok2Vec = AnyModel


@dataclass(frozen=True)
class Architecture:
    """The settings of a retriever.

    Attributes:
        name: The registered name of its function.
        settings: The arguments of the function that are plain data. They are saved.
        entity_settings: The settings that determine the vectors of entities: "pooling", "similarity",
            "entity_length" and, if set, "n_numbers" of ``BiEncoder``.
        make_reader: Makes the reader of mentions from the encoder of the entities.
        listens: Whether another component reads its documents. Then the function has the argument
            ``tok2vec``.
        surface: Whether the entity tower's vector of the mention's words is added to the vector of the
            mention in its text.
    """

    name: str
    settings: dict[str, Any]
    entity_settings: dict[str, Any]
    make_reader: Callable[[BertEncoder], MentionReader]
    listens: bool = False
    surface: bool = False


def make_retriever(architecture: Architecture, source: EncoderSource) -> AnyModel:
    """Make a retriever with a mention tower and an entity tower, each around a BERT.

    The settings "shared" (default: true) and "mention_layers" are those of ``BiEncoder``; ``source`` makes
    the initial weights.

    Raises:
        PelError: "mention_layers" is set for a shared tower.
    """
    shared = architecture.settings.get("shared", True)
    mention_layers = architecture.settings.get("mention_layers")
    if shared and mention_layers is not None:
        raise PelError("mention_layers is set for a shared tower", 'set "shared" to false')
    towers = [_text_tower(architecture) for _ in range(1 if shared else 2)]
    return _retriever(architecture, towers, partial(load_encoder, source, mention_layers))


def _text_tower(architecture: Architecture) -> Tower:
    of_entities = architecture.entity_settings
    encoder = TextEncoder(
        pooling=of_entities["pooling"],
        normalize=of_entities["similarity"] == "cosine",
        mixed_precision=architecture.settings.get("mixed_precision", False),
        n_numbers=of_entities.get("n_numbers"),
    )
    return make_tower(encoder)


def _retriever(
    architecture: Architecture,
    towers: list[Tower],
    init: Callable[..., AnyModel],
    tok2vec: Tok2Vec | None = None,
) -> AnyModel:
    return Model(
        architecture.name,
        _refuse_forward,
        init=init,
        layers=towers,
        # "tok2vec" reads the documents of a retriever that listens; None for others.
        refs={"mention": towers[0], "entity": towers[-1], "tok2vec": tok2vec},
        attrs={"architecture": architecture},
    )


def _refuse_forward(model: AnyModel, X: object, is_train: bool) -> NoReturn:
    """Refuse: each side of a retriever has its own forward function."""
    raise NotImplementedError('use a tower: model.get_ref("mention") or model.get_ref("entity")')


# Saving and loading


def saved_settings(retriever: AnyModel) -> dict[str, Any]:
    """Return everything that is saved of a retriever except its weights, as plain data."""
    own: Architecture = retriever.attrs["architecture"]
    given = ["tok2vec", "encoder"] if own.listens else ["encoder"]
    return {**own.settings, "architecture": own.name, "given": given}


def retriever_from_settings(saved: dict[str, Any], tok2vec: Tok2Vec | None = None) -> AnyModel:
    """Make a retriever without weights from ``saved_settings`` and its listener.

    Raises:
        PelError: The architecture is not registered, or refuses its settings.
    """
    settings = dict(saved)
    name, given = settings.pop("architecture"), settings.pop("given")
    if not registry.has("architectures", name):
        raise PelError(
            f'the saved retriever is of the architecture "{name}", which is not registered',
            "install or import what registers it",
        )
    known = {"encoder": no_source, "tok2vec": tok2vec}
    make: Callable[..., AnyModel] = registry.get("architectures", name)
    return make(**{argument: known[argument] for argument in given}, **settings)


def pack_retriever(retriever: AnyModel) -> bytes:
    """Return the architecture, settings and weights of a retriever as bytes."""
    return pack_model(retriever, saved_settings(retriever))


def unpack_retriever(packed: Packed, tok2vec: Tok2Vec | None = None) -> AnyModel:
    """Restore a retriever from ``pack_retriever``, a file or bytes.

    Raises:
        PelError: It is no packed retriever, or its architecture is not registered.
    """
    return unpack_model(packed, lambda _, **settings: retriever_from_settings(settings, tok2vec))


# The architectures


def BiEncoder(
    encoder: EncoderSource,
    shared: bool,
    pooling: str,
    similarity: str,
    mention_length: int,
    entity_length: int,
    mixed_precision: bool,
    mention_layers: int | None = None,
    n_numbers: int | None = None,
) -> AnyModel:
    """Retriever: a mention tower and an entity tower (PEL, section 5.2).

    ``initialize(X=texts)`` loads the weights.

    Args:
        encoder: Source of the initial weights.
        shared: Use one tower for both sides. Otherwise two towers start from the same weights.
        pooling: "mean" over all tokens, "focus" over the tokens of the mention or title, "both", or
            "cls", the state of [CLS] (KRISSBERT, ArboEL).
        similarity: "cosine" (vectors of length 1) or "dot".
        mention_length: The maximum number of tokens of a mention's input.
        entity_length: The maximum number of tokens of an entity's input.
        mixed_precision: Compute in bfloat16 where it is safe. This is much faster on processors with
            bfloat16 instructions.
        mention_layers: The number of layers of the mention tower; null: all. Use it for a small mention
            tower that learns from the vectors of a large retriever (``freeze_entities``). It requires
            ``shared = false``.
        n_numbers: The length of the vectors; null: that of the encoder's states. Shorter vectors make a
            KB smaller and its search faster (``TextEncoder``).

    Raises:
        PelError: The pooling or the similarity is unknown, a length is too short, or
            ``mention_layers`` is set for a shared tower.
    """
    check_length("mention_length", mention_length, 8)
    of_entities = _entity_settings("pooling", pooling, similarity, entity_length, n_numbers)
    settings = {
        **of_entities,
        "shared": shared,
        "mention_length": mention_length,
        "mixed_precision": mixed_precision,
        "mention_layers": mention_layers,
    }
    reader = partial(_text_reader, MarkedTextReader, mention_length)
    architecture = Architecture("spacy-pel.BiEncoder.v1", settings, of_entities, reader)
    return make_retriever(architecture, encoder)


def DocumentEncoder(
    encoder: EncoderSource,
    shared: bool = True,
    pooling: str = "mean",
    entity_pooling: str = "focus",
    similarity: str = "cosine",
    window: int = 256,
    entity_length: int = 64,
    mixed_precision: bool = False,
    mention_layers: int | None = None,
    n_numbers: int | None = None,
) -> AnyModel:
    """Retriever whose mention tower reads each window of a document once for all its mentions.

    BERT's segment embedding marks all mentions. The vector of a mention is pooled from its own tokens. The
    entity tower, the other arguments and the errors are those of ``BiEncoder``.

    Args:
        pooling: The pooling of mentions: "mean" of their tokens.
        entity_pooling: The pooling of entities (``pooling`` of ``BiEncoder``).
        window: The maximum number of tokens of a window (``WindowReader``).
    """
    check_choice("pooling", pooling, "mean")
    check_length("window", window, 16)
    of_entities = _entity_settings(
        "entity_pooling", entity_pooling, similarity, entity_length, n_numbers
    )
    settings = {
        **of_entities,
        "shared": shared,
        "pooling": pooling,
        "entity_pooling": entity_pooling,
        "window": window,
        "mixed_precision": mixed_precision,
        "mention_layers": mention_layers,
    }
    reader = partial(_text_reader, WindowReader, window)
    architecture = Architecture("spacy-pel.DocumentEncoder.v1", settings, of_entities, reader)
    return make_retriever(architecture, encoder)


def SharedEncoder(
    tok2vec: Tok2Vec | None,
    encoder: EncoderSource,
    pooling: str = "mean",
    entity_pooling: str = "focus",
    similarity: str = "cosine",
    entity_length: int = 64,
    mixed_precision: bool = False,
    n_numbers: int | None = None,
    surface: bool = False,
    layer: EncoderSource | None = None,
) -> AnyModel:
    """Retriever that pools the token states of another component of the pipeline.

    The mention tower reads ``DocumentSpans``. The entity tower, the other arguments and the errors are
    those of ``BiEncoder``.

    Args:
        tok2vec: A listener to a "transformer" (spacy-transformers.TransformerListener.v1) or a "tok2vec"
            (spacy.Tok2VecListener.v1). If that component is not frozen, it also learns from the linker.
        pooling: The pooling of mentions: "mean" of their tokens.
        entity_pooling: The pooling of entities (``pooling`` of ``BiEncoder``).
        surface: Add the entity tower's vector of the mention's words, and scale the sum to length 1.
            Training omits it. The words find names that training has not seen, and the context
            distinguishes the senses.
        layer: A BERT whose last layer reads the states before they are pooled, so that each token of a
            mention attends to its document. This gives the linker a trainable layer even if the component
            that it listens to is frozen. Null: pool the states unchanged.
    """
    check_choice("pooling", pooling, "mean")
    of_entities = _entity_settings(
        "entity_pooling", entity_pooling, similarity, entity_length, n_numbers
    )
    settings = {
        **of_entities,
        "pooling": pooling,
        "entity_pooling": entity_pooling,
        "mixed_precision": mixed_precision,
        "surface": surface,
    }
    spans = SpanEncoder(normalize=similarity == "cosine", mixed_precision=mixed_precision)
    # The listener is a layer of the tower, so that spaCy finds it.
    layers = [tok2vec] if tok2vec else []
    mention = make_tower(spans, "states-tower", _pooled_states, layers=layers)
    architecture = Architecture(
        "spacy-pel.SharedEncoder.v1", settings, of_entities, SharedStatesReader, True, surface
    )
    towers = [mention, _text_tower(architecture)]
    return _retriever(architecture, towers, partial(_load_shared, encoder, layer), tok2vec)


def _load_shared(
    encoder: EncoderSource,
    layer: EncoderSource | None,
    model: AnyModel,
    X: Iterable[str],
    Y: object = None,
) -> AnyModel:
    tok2vec, entity = model.maybe_get_ref("tok2vec"), encoder_of(model.get_ref("entity"))
    nodes = tok2vec.walk() if tok2vec else ()
    width = next((node.get_dim("nO") for node in nodes if node.has_dim("nO")), None)
    if width is None:
        raise PelError(
            "the linker shares the encoder of another component, but listens to none",
            'add a "transformer" or "tok2vec" to the pipeline before it',
        )
    encoders = encoder(X)
    entity.load(encoders.entity, encoders.tokenizer)
    own = layer(X).mention if layer else None
    encoder_of(model.get_ref("mention")).load(width, entity.n_outputs, own)
    for tower in model.layers:
        encoder_of(tower).to(get_torch_default_device())
    return model


def _text_reader(
    kind: Callable[[Tokenizer, int, int], MentionReader], length: int, entity: BertEncoder
) -> MentionReader:
    return kind(entity.tokenizer, length, entity.position_limit)


def _entity_settings(
    name: str,
    pooling: str,
    similarity: str,
    entity_length: int,
    n_numbers: int | None,
) -> dict[str, Any]:
    """Check and return the settings that determine the vectors of entities (``Architecture``).

    ``name`` is the name of the pooling's setting.
    """
    check_choice(name, pooling, "mean", "focus", "both", "cls")
    check_choice("similarity", similarity, "cosine", "dot")
    check_length("entity_length", entity_length, 4)
    settings = {"pooling": pooling, "similarity": similarity, "entity_length": entity_length}
    if n_numbers is not None:
        settings["n_numbers"] = n_numbers
    return settings


def _pooled_states(
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
    all_states: list[Any] = [each.document.states for each in documents]
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
    given, *others = (
        torch.as_tensor(array, device=device) for array in (states, spans, np.array(lengths))
    )
    set_training(encoder, is_train)
    with torch.inference_mode(not is_train), nullcontext() if is_train else one_torch_thread():
        vectors = encoder(given.requires_grad_(is_train), *others)
    outputs = np.empty(vectors.shape, dtype=np.float32)
    outputs[order] = vectors.detach().cpu().numpy()

    def backprop(d_outputs: np.ndarray) -> list[np.ndarray]:
        vectors.backward(torch.as_tensor(d_outputs[order], device=device))
        assert given.grad is not None  # it is a leaf
        d_states = np.split(given.grad.cpu().numpy(), firsts[1:-1])
        for each, d_own in zip(documents, d_states):
            each.document.gradient += d_own
        return []

    return outputs, backprop
