"""The retrievers: how each is made and reads, how it is saved, and what the package asks one.

A kind of retriever is a function that is registered and calls ``make_retriever``. There are three:
each mention is read in a text of its own, a document once for all its mentions, or nothing, because
another component of the pipeline has read it.
"""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from spacy import registry
from thinc.api import Model
from thinc.util import get_torch_default_device

from ...errors import PelError
from ...text.mention_inputs import (
    DocumentSpans,
    MarkedTextReader,
    MentionReader,
    SharedStatesReader,
    WindowReader,
)
from ..bert import one_thread
from ..encoders import BertEncoder, SpanEncoder, TextEncoder
from ..packed_weights import Packed
from .towers import (
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

# From the documents of spaCy to the states of the tokens of each, [t, w].
Tok2Vec = Model


@dataclass(frozen=True)
class Architecture:
    """How a retriever was made, and how it reads.

    Attributes:
        name: The name under which its function is registered.
        settings: The arguments of the function that are plain data. They are saved.
        entity_settings: The settings that decide the vectors of entities, named as those of
            ``BiEncoder``: "pooling", "similarity", "entity_length" and, if set, "n_numbers".
        make_reader: From the encoder of the entities to what turns mentions into the inputs of the
            mention tower.
        listens: Whether another component reads its documents. Then the function has an argument
            ``tok2vec``.
        surface: Whether the vector that the entity tower gives the words of a mention is added to
            that of the mention in its text.
    """

    name: str
    settings: dict[str, Any]
    entity_settings: dict[str, Any]
    make_reader: Callable[[BertEncoder], MentionReader]
    listens: bool = False
    surface: bool = False


def make_retriever(
    architecture: Architecture,
    source: EncoderSource,
    make_encoder: Callable[[], TextEncoder],
    *,
    shared: bool,
    mention_layers: int | None = None,
) -> Model:
    """A retriever of a mention tower and an entity tower, each around a BERT.

    Args:
        architecture: How it is made and reads.
        source: Where the weights come from.
        make_encoder: Makes the torch module of a tower.
        shared: Whether both sides have one tower.
        mention_layers: The number of layers of the mention tower; None for all of the source's.

    Raises:
        PelError: If shared towers are to differ.
    """
    if shared and mention_layers is not None:
        raise PelError("mention_layers needs two towers, and they are one", 'set "shared" to false')
    towers = [make_tower(make_encoder()) for _ in range(1 if shared else 2)]
    return _retriever(architecture, towers, partial(load_encoder, source, mention_layers))


def _retriever(
    architecture: Architecture,
    towers: list[Tower],
    init: Callable[..., Model],
    tok2vec: Tok2Vec | None = None,
) -> Model:
    return Model(
        architecture.name,
        _refuse_forward,
        init=init,
        layers=towers,
        # "tok2vec" reads the documents, if the retriever listens and it is there; else None.
        refs={"mention": towers[0], "entity": towers[-1], "tok2vec": tok2vec},
        attrs={"architecture": architecture},
    )


def _refuse_forward(model: Model, X, is_train: bool):
    """A retriever has two sides, each with a forward of its own."""
    raise NotImplementedError('use a tower: model.get_ref("mention") or model.get_ref("entity")')


# What the package asks a retriever


def saved_settings(retriever: Model) -> dict[str, Any]:
    """What is saved of a retriever apart from its weights, as plain data."""
    own: Architecture = retriever.attrs["architecture"]
    given = ["tok2vec", "encoder"] if own.listens else ["encoder"]  # each time when it is made
    return {**own.settings, "architecture": own.name, "given": given}


def retriever_from_settings(saved: dict[str, Any], tok2vec: Tok2Vec | None = None) -> Model:
    """A retriever without weights, from what ``saved_settings`` gave, and what it listens to.

    Raises:
        PelError: If the architecture is not registered, or refuses its settings.
    """
    settings = dict(saved)
    name, given = settings.pop("architecture"), settings.pop("given")
    if not registry.has("architectures", name):
        raise PelError(
            f'the saved retriever is of the architecture "{name}", which is not registered',
            "install or import what registers it",
        )
    known = {"encoder": no_source, "tok2vec": tok2vec}
    make = registry.get("architectures", name)
    return make(**{argument: known[argument] for argument in given}, **settings)


def pack_retriever(retriever: Model) -> bytes:
    """The architecture, the settings and the weights of a retriever, as bytes."""
    return pack_model(retriever, saved_settings(retriever))


def unpack_retriever(packed: Packed, tok2vec: Tok2Vec | None = None) -> Model:
    """The retriever that ``pack_retriever`` packed, from a file or bytes.

    Raises:
        PelError: If it is no packed retriever, or its architecture is not registered.
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
) -> Model:
    """Retriever: a mention tower and an entity tower (PEL, section 5.2).

    ``initialize(X=texts)`` fetches the weights.

    Args:
        encoder: Where the weights come from at initialisation.
        shared: Whether both sides have one tower. Otherwise there are two, which start from the same
            weights.
        pooling: "mean" over all tokens, "focus" over those of the mention or title, "both", or
            "cls", the state of [CLS] (KRISSBERT, ArboEL).
        similarity: "cosine" (vectors of length 1) or "dot".
        mention_length: The most tokens of a mention's input.
        entity_length: The most tokens of an entity's input.
        mixed_precision: Compute in bfloat16 where it is safe, on processors that have it. There it is
            much faster.
        mention_layers: The number of layers of the mention tower; null for all of the source's. Set
            it only if the towers are not shared, for a small mention tower that learns from a large
            retriever which has embedded the KB (``freeze_entities``).
        n_numbers: How many numbers a vector has; null: as many as the encoder's states. Shorter
            vectors make a KB smaller and its search quicker (``TextEncoder``).

    Raises:
        PelError: If the pooling or the similarity is unknown, a length is too short, or
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
    return make_retriever(
        Architecture("spacy-pel.BiEncoder.v1", settings, of_entities, reader),
        encoder,
        partial(TextEncoder, **_of_texts(of_entities, mixed_precision)),
        shared=shared,
        mention_layers=mention_layers,
    )


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
) -> Model:
    """Retriever whose mention tower reads documents in windows, each once for all its mentions.

    BERT's segment embedding marks all mentions at once. The vector of a mention is pooled from its
    own tokens. The entity tower is that of ``BiEncoder``.

    Arguments that are not named here, and errors, are those of ``BiEncoder``.

    Args:
        pooling: The vector of a mention is the "mean" of its tokens; there is no other way.
        entity_pooling: The pooling of entities, as ``pooling`` of ``BiEncoder``.
        window: The most tokens of a window (``WindowReader``).
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
    return make_retriever(
        Architecture("spacy-pel.DocumentEncoder.v1", settings, of_entities, reader),
        encoder,
        partial(TextEncoder, **_of_texts(of_entities, mixed_precision)),
        shared=shared,
        mention_layers=mention_layers,
    )


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
) -> Model:
    """Retriever that reads no mention by itself: it pools what the pipeline has read already.

    The mention tower reads ``DocumentSpans``. The entity tower is that of ``BiEncoder``. So are the
    arguments that are not named here, and the errors.

    Args:
        tok2vec: A listener, as spaCy's other components have one: to a "transformer"
            (spacy-transformers.TransformerListener.v1) or a "tok2vec" (spacy.Tok2VecListener.v1).
            If that component is not frozen, it learns from the linker, too.
        pooling: The vector of a mention is mapped from the "mean" of its tokens; there is no other way.
        entity_pooling: The pooling of entities, as ``pooling`` of ``BiEncoder``.
        surface: Whether the linker adds the vector that the entity tower gives the words of a
            mention, read as a name, and scales the sum to length 1. Training does without. The
            words alone find names that training has not seen, and the text parts the senses.
        layer: A BERT whose last layer reads the states before they are pooled: each token of a mention
            attends to its document. So the linker has a layer of its own, also where the component
            that it listens to is frozen. Null: the states are pooled as they are.
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
    normalize = similarity == "cosine"
    spans = SpanEncoder(normalize=normalize, mixed_precision=mixed_precision)
    # The listener is a layer of the tower, so that spaCy finds it.
    layers = [tok2vec] if tok2vec else []
    mention = make_tower(spans, "states-tower", _pooled_states, layers=layers)
    entity = make_tower(TextEncoder(**_of_texts(of_entities, mixed_precision)))

    architecture = Architecture(
        "spacy-pel.SharedEncoder.v1", settings, of_entities, SharedStatesReader, True, surface
    )
    return _retriever(
        architecture, [mention, entity], partial(_load_shared, encoder, layer), tok2vec
    )


def _load_shared(
    encoder: EncoderSource, layer: EncoderSource | None, model: Model, X: Iterable[str], Y=None
) -> Model:
    tok2vec, entity = model.maybe_get_ref("tok2vec"), encoder_of(model.get_ref("entity"))
    nodes = tok2vec.walk() if tok2vec else ()
    width = next((node.get_dim("nO") for node in nodes if node.has_dim("nO")), None)
    if width is None:
        raise PelError(
            "the linker shares what another component reads, but there is none that it listens to",
            'put a "transformer" or "tok2vec" into the pipeline, as its upstream',
        )
    encoders = encoder(X)
    entity.load(encoders.entity, encoders.tokenizer)
    own = layer(X).mention if layer else None
    encoder_of(model.get_ref("mention")).load(width, entity.n_outputs, own)
    for tower in model.layers:
        encoder_of(tower).to(get_torch_default_device())
    return model


def _text_reader(kind: type, length: int, entity: BertEncoder) -> MentionReader:
    return kind(entity.tokenizer, length, entity.position_limit)


def _entity_settings(
    name: str,
    pooling: str,
    similarity: str,
    entity_length: int,
    n_numbers: int | None,
) -> dict[str, Any]:
    """The settings that decide the vectors of entities (``Architecture``), if they are right.

    name: that of the setting of the pooling.
    """
    check_choice(name, pooling, "mean", "focus", "both", "cls")
    check_choice("similarity", similarity, "cosine", "dot")
    check_length("entity_length", entity_length, 4)
    settings = {"pooling": pooling, "similarity": similarity, "entity_length": entity_length}
    if n_numbers is not None:
        settings["n_numbers"] = n_numbers
    return settings


def _of_texts(of_entities: dict[str, Any], mixed_precision: bool) -> dict[str, Any]:
    """The arguments of a ``TextEncoder``."""
    return {
        "pooling": of_entities["pooling"],
        "normalize": of_entities["similarity"] == "cosine",
        "mixed_precision": mixed_precision,
        "n_numbers": of_entities.get("n_numbers"),
    }


def _pooled_states(
    model: Tower, documents: Sequence[DocumentSpans], is_train: bool
) -> tuple[np.ndarray, Callable[[np.ndarray], list[np.ndarray]]]:
    """Pool the states of all documents at once: float32 [n, n_outputs], in the mentions' order.

    The callback adds the gradient with respect to the states to that of their documents.
    """
    encoder = encoder_of(model)
    if not documents:
        return np.empty((0, encoder.n_outputs), dtype=np.float32), lambda _: []
    firsts = np.cumsum([0, *(len(each.document.states) for each in documents)])
    states = np.concatenate([each.document.states for each in documents])
    spans = np.concatenate([d.spans + first for d, first in zip(documents, firsts)])
    order = np.concatenate([document.mentions for document in documents])
    device = next(encoder.parameters()).device
    given = [torch.as_tensor(array, device=device) for array in (states, spans, np.diff(firsts))]
    set_training(encoder, is_train)
    with torch.inference_mode(not is_train), nullcontext() if is_train else one_thread():
        vectors = encoder(given[0].requires_grad_(is_train), *given[1:])
    outputs = np.empty(vectors.shape, dtype=np.float32)
    outputs[order] = vectors.detach().cpu().numpy()

    def backprop(d_outputs: np.ndarray) -> list[np.ndarray]:
        vectors.backward(torch.as_tensor(d_outputs[order], device=device))
        d_states = np.split(given[0].grad.cpu().numpy(), firsts[1:-1])
        for each, d_own in zip(documents, d_states):
            each.document.gradient += d_own
        return []

    return outputs, backprop
