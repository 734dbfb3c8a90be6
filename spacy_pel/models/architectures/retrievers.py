"""The retriever: a thinc model of mentions in their texts -> vectors, float32 [n, d].

A registered function makes it with ``make_retriever``. ``BiEncoder`` reads each mention in its own text,
``DocumentEncoder`` reads a document once for all its mentions, and ``SharedEncoder`` uses the states of
another component of the pipeline. The entity tower of the model encodes entities (``entity_vectors``).
"""

# No "from __future__ import annotations": the registry reads the types of the arguments.

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from spacy.util import registry
from thinc.api import Model
from thinc.util import get_torch_default_device
from torch import Tensor

from ...errors import PelError
from ...text.entity_texts import EntityReader, EntityText
from ...text.mention_inputs import (
    MarkedTextReader,
    MentionInContext,
    MentionReader,
    SharedStatesReader,
    WindowReader,
)
from ...text.token_inputs import text_inputs
from ..encoders import SpanEncoder, TextEncoder
from ..packed_weights import Packed, read_tensors, under
from .towers import (
    AnyModel,
    Backprop,
    EncoderSource,
    Tower,
    check_choice,
    check_length,
    encoder_of,
    is_initialized,
    load_encoder,
    make_tower,
    no_source,
    pack_model,
    pool_states,
    unpack_model,
)

MAX_REMEMBERED = 10_000  # vectors of mentions by their words
_DIGESTED = 1 << 18  # weights that a digest reads at a time

Retriever = Model[Sequence[MentionInContext], np.ndarray]
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
        make_reader: Makes the reader of mentions from the ``tokenizer`` of the entity encoder and its
            ``position_limit``, which are keyword arguments.
        listens: Whether it uses the states of another component. Its function then has the argument
            ``tok2vec``.
        surface: Whether the entity tower's vector of the mention's words is added to the vector of the
            mention in its text.
    """

    name: str
    settings: dict[str, Any]
    entity_settings: dict[str, Any]
    make_reader: Callable[..., MentionReader]
    listens: bool = False
    surface: bool = False


def make_retriever(architecture: Architecture, source: EncoderSource) -> Retriever:
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
    return _retriever(architecture, towers, partial(_load, source, mention_layers))


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
) -> Retriever:
    return Model(
        architecture.name,
        _encode_mentions,
        init=init,
        layers=towers,
        # "tok2vec" reads the documents of a retriever that listens; None for others.
        refs={"mention": towers[0], "entity": towers[-1], "tok2vec": tok2vec},
        dims={"nO": None},
        attrs={"architecture": architecture},
    )


def _load(
    source: EncoderSource,
    mention_layers: int | None,
    model: Retriever,
    X: Iterable[str],
    Y: object = None,
) -> Retriever:
    return _with_readers(load_encoder(source, mention_layers, model, X))


def _with_readers(model: Retriever) -> Retriever:
    """Give a retriever with weights its readers of mentions and entities, and the width of its vectors."""
    architecture: Architecture = model.attrs["architecture"]
    encoder = encoder_of(model.get_ref("entity"))
    tokenizer, limit = encoder.tokenizer, encoder.position_limit
    length = architecture.entity_settings["entity_length"]
    model.attrs["mention_reader"] = architecture.make_reader(
        tokenizer=tokenizer, position_limit=limit
    )
    model.attrs["entity_reader"] = EntityReader(tokenizer, length, limit)
    model.set_dim("nO", encoder.n_outputs, force=True)
    return model


# Encoding


def _encode_mentions(
    model: Retriever, mentions: Sequence[MentionInContext], is_train: bool
) -> tuple[np.ndarray, Backprop]:
    """Encode mentions, in training without the vectors of their words (``Architecture.surface``)."""
    inputs = model.attrs["mention_reader"].inputs(mentions)
    vectors, backprop = model.get_ref("mention")(inputs, is_train)
    if model.attrs["architecture"].surface and len(vectors) and not is_train:
        vectors += _surface_vectors(model, [mention.surface for mention in mentions])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, backprop


def _surface_vectors(model: Retriever, surfaces: Sequence[str]) -> np.ndarray:
    """Return the vector of each mention by its words alone, float32 [n, d].

    ONNX Runtime computes each text by itself, so its vectors are remembered. Those of torch depend on
    the other texts of a batch to the last bit.
    """
    computed_by = encoder_of(model.get_ref("entity")).computed_by
    known = {} if computed_by is None else computed_by.vectors
    vectors = {surface: known[surface] for surface in surfaces if surface in known}
    new = [surface for surface in dict.fromkeys(surfaces) if surface not in vectors]
    vectors |= zip(new, entity_vectors(model, list(map(EntityText, new))))
    if len(known) + len(new) > MAX_REMEMBERED:
        known.clear()
    known.update((surface, vectors[surface]) for surface in new)
    return np.stack([vectors[surface] for surface in surfaces])


def entity_vectors(model: Retriever, entities: Sequence[EntityText]) -> np.ndarray:
    """Return the vector of each entity, float32 [n, d]."""
    tokens = model.attrs["entity_reader"].tokens(entities)
    vectors: np.ndarray = model.get_ref("entity").predict(text_inputs(tokens))
    return vectors


def fingerprint(model: Retriever) -> str:
    """Return a digest of all that determines the vectors: weights, settings and tokenizer."""
    return _digest(model.attrs["architecture"].settings, model.layers)


def entity_fingerprint(model: Retriever) -> str:
    """Return a digest of all that determines the vectors of entities. A KB that fits has the same."""
    entity = model.get_ref("entity")
    known, versions = encoder_of(entity).known_fingerprint
    if known and versions == _versions(entity):
        return str(known)
    return _digest(model.attrs["architecture"].entity_settings, [entity])


def _digest(
    settings: dict[str, Any],
    towers: Sequence[Tower],
    saved_weights: dict[str, Tensor] | None = None,
) -> str:
    """Return a digest of settings and towers, or of one tower with the weights of its file."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(settings, sort_keys=True).encode())
    for tower in towers:
        encoder = encoder_of(tower)
        for value in encoder.description().values():
            digest.update(str(value).encode())
        for name, tensor in sorted((saved_weights or encoder.weights()).items()):
            digest.update(name.encode())
            for part in tensor.reshape(-1).split(_DIGESTED):  # float32 copies are short
                digest.update(part.float().cpu().numpy().data)
    return digest.hexdigest()


def _versions(tower: Tower) -> list[tuple[int, int]]:
    """Return the place of each weight of a tower, and how often torch has changed the weight."""
    return [(w.data_ptr(), w._version) for w in encoder_of(tower).state_dict().values()]


# Saving and loading


def saved_settings(retriever: Retriever) -> dict[str, Any]:
    """Return what is saved of a retriever besides its weights, as plain data."""
    architecture: Architecture = retriever.attrs["architecture"]
    given = ["tok2vec", "encoder"] if architecture.listens else ["encoder"]
    return {**architecture.settings, "architecture": architecture.name, "given": given}


def retriever_from_settings(saved: dict[str, Any], tok2vec: Tok2Vec | None = None) -> Retriever:
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


def pack_retriever(retriever: Retriever) -> bytes:
    """Return the architecture, settings and weights of a retriever as bytes."""
    return pack_model(retriever, saved_settings(retriever))


def unpack_retriever(packed: Packed, tok2vec: Tok2Vec | None = None) -> Retriever:
    """Restore a retriever from ``pack_retriever``, a file or bytes.

    Raises:
        PelError: It is no packed retriever, or its architecture is not registered.
    """
    model = unpack_model(packed, lambda _, **settings: retriever_from_settings(settings, tok2vec))
    if not is_initialized(model):
        return model
    # The digest reads all weights, but linking only some rows of the word embeddings. So the digest maps the
    # file again: what it reads leaves memory with its map.
    entity = model.get_ref("entity")
    saved_weights = under(f"{model.layers.index(entity)}.", read_tensors(packed))
    of_entities = model.attrs["architecture"].entity_settings
    of_file = _digest(of_entities, [entity], saved_weights)
    encoder_of(entity).known_fingerprint = of_file, _versions(entity)
    return _with_readers(model)


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
) -> Retriever:
    """Make a retriever of a mention tower and an entity tower (PEL, section 5.2).

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
    reader = partial(MarkedTextReader, length=mention_length)
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
) -> Retriever:
    """Make a retriever whose mention tower reads each window of a document once for all its mentions.

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
    reader = partial(WindowReader, length=window)
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
) -> Retriever:
    """Make a retriever that pools the token states of another component of the pipeline.

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
    mention = make_tower(spans, "states-tower", pool_states, layers=layers)
    architecture = Architecture(
        "spacy-pel.SharedEncoder.v1", settings, of_entities, SharedStatesReader, True, surface
    )
    towers = [mention, _text_tower(architecture)]
    return _retriever(architecture, towers, partial(_load_shared, encoder, layer), tok2vec)


def _load_shared(
    encoder: EncoderSource,
    layer: EncoderSource | None,
    model: Retriever,
    X: Iterable[str],
    Y: object = None,
) -> Retriever:
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
    bert = layer(X).mention if layer else None
    encoder_of(model.get_ref("mention")).load(width, entity.n_outputs, bert)
    for tower in model.layers:
        encoder_of(tower).to(get_torch_default_device())
    return _with_readers(model)


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
