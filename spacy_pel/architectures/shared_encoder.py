"""The retriever whose mentions are read by a component before the linker."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Callable, Iterable

import numpy as np
import torch
from thinc.api import ArgsKwargs, Model
from thinc.util import get_torch_default_device

from ..errors import PelError
from ..models.encoders import BertEncoder, SpanEncoder, TextEncoder
from ..reading.shared_states import SharedStatesReader, StatesInputs
from .encoder_sources import EncoderSource
from .retriever_model import Architecture, Tok2Vec, entity_settings_of, retriever_of
from .setting_checks import check_choice, check_length
from .towers import Tower, encoder_of, make_tower, wrapped


def SharedEncoder(
    tok2vec: Tok2Vec | None,
    encoder: EncoderSource,
    pooling: str = "mean",
    entity_pooling: str = "focus",
    similarity: str = "cosine",
    entity_length: int = 64,
    mixed_precision: bool = False,
    n_numbers: int | None = None,
) -> Model:
    """Retriever that reads no mention by itself: it pools what the pipeline has read already.

    The mention tower reads ``StatesInputs``. The entity tower is that of ``BiEncoder``.

    Args:
        tok2vec: A listener, as spaCy's other components have one: to a "transformer"
            (spacy-transformers.TransformerListener.v1) or a "tok2vec" (spacy.Tok2VecListener.v1).
            If that component is not frozen, it learns from the linker, too.
        encoder: Where the weights of the entity tower come from at initialisation.
        pooling: The vector of a mention is mapped from the "mean" of its tokens, its "start" or its
            "end".
        entity_pooling: The pooling of entities, as ``pooling`` of ``BiEncoder``.
        similarity: As for ``BiEncoder``.
        entity_length: The most tokens of an entity's input.
        mixed_precision: As for ``BiEncoder``; of the entity tower.
        n_numbers: As for ``BiEncoder``.

    Raises:
        PelError: If a pooling or the similarity is unknown, or the length is too short.
    """
    check_choice("pooling", pooling, "mean", "start", "end")
    check_choice("entity_pooling", entity_pooling, "mean", "focus", "both", "cls")
    check_choice("similarity", similarity, "cosine", "dot")
    check_length("entity_length", entity_length, 4)
    of_entities = entity_settings_of(entity_pooling, similarity, entity_length, n_numbers)
    architecture = Architecture(
        "spacy-pel.SharedEncoder.v1",
        {
            **of_entities,
            "pooling": pooling,
            "entity_pooling": entity_pooling,
            "mixed_precision": mixed_precision,
        },
        of_entities,
        _reader,
        listens=True,
    )
    cosine = similarity == "cosine"
    mention = make_states_tower(SpanEncoder(pooling=pooling, normalize=cosine), tok2vec)
    entity = make_tower(
        TextEncoder(
            pooling=entity_pooling,
            normalize=cosine,
            mixed_precision=mixed_precision,
            n_numbers=n_numbers,
        )
    )

    def init(model: Model, X: Iterable[str], Y=None) -> Model:
        encoders = encoder(X)
        encoder_of(entity).load(encoders.entity, encoders.tokenizer)
        encoder_of(mention).load(width_of(tok2vec), encoder_of(entity).n_outputs)
        for tower in model.layers:
            encoder_of(tower).to(get_torch_default_device())
        return model

    return retriever_of(architecture, mention, entity, init, tok2vec)


def make_states_tower(encoder: SpanEncoder, tok2vec: Tok2Vec | None) -> Tower:
    """A tower that pools states.

    It reads ``StatesInputs`` and gives float32 [n, n_outputs], in the order of the mentions. The
    callback of its training adds the gradient with respect to the states to that of their documents.

    Args:
        encoder: Pools the states of a mention.
        tok2vec: Makes the states. It is a layer of the tower so that spaCy finds the listener.
    """
    wrapper = wrapped(encoder, _to_torch)
    return Model("states-tower", _forward, layers=[wrapper] + ([tok2vec] if tok2vec else []))


def _reader(encoder: BertEncoder) -> SharedStatesReader:
    return SharedStatesReader()


def width_of(tok2vec: Tok2Vec | None) -> int:
    """The length of the states.

    Raises:
        PelError: If no component makes any.
    """
    for node in tok2vec.walk() if tok2vec else ():
        if node.has_dim("nO"):
            return node.get_dim("nO")
    raise PelError(
        "the linker shares what another component reads, but there is none that it listens to",
        'put a "transformer" or "tok2vec" into the pipeline, as its upstream',
    )


def _forward(
    model: Tower, inputs: StatesInputs, is_train: bool
) -> tuple[np.ndarray, Callable[[np.ndarray], list[np.ndarray]]]:
    """Pool the states of all documents at once; see ``make_states_tower``."""
    documents = inputs.documents
    wrapper = model.layers[0]
    if not documents:
        return np.empty((0, encoder_of(model).n_outputs), dtype=np.float32), lambda _: []
    lengths = [len(document.tokens.states) for document in documents]
    firsts = np.cumsum([0, *lengths])
    states = np.concatenate([document.tokens.states for document in documents])
    spans = np.concatenate([d.spans + first for d, first in zip(documents, firsts)])
    order = np.concatenate([document.mentions for document in documents])
    vectors, backprop_vectors = wrapper((states, spans), is_train)
    outputs = np.empty_like(vectors)
    outputs[order] = vectors

    def backprop(d_outputs: np.ndarray) -> list[np.ndarray]:
        d_states = np.split(backprop_vectors(d_outputs[order]), firsts[1:-1])
        for document, d_own in zip(documents, d_states):
            gradient = document.tokens.gradient
            gradient += d_own
        return []

    return outputs, backprop


def _to_torch(model: Model, batch: tuple[np.ndarray, np.ndarray], is_train: bool):
    device = model.shims[0].device
    states, spans = (torch.as_tensor(array, device=device) for array in batch)
    states.requires_grad_(is_train)
    return ArgsKwargs(args=(states, spans), kwargs={}), lambda d: d.args[0].cpu().numpy()
