"""What the rest of the package needs to know of a retriever's architecture, whichever it is."""

from __future__ import annotations

from thinc.api import Model

from ..inputs import InputBuilder
from ..models.weights import Packed, unpack
from ..windows import WindowBuilder
from .biencoder import BiEncoder
from .document import DocumentEncoder
from .sources import no_source
from .towers import encoder_of, fill_model


def settings(retriever: Model) -> dict:
    """The arguments of its architecture but for the source of weights, as plain data."""
    return dict(retriever.attrs)


def from_settings(settings: dict) -> Model:
    """A retriever without weights."""
    architecture = DocumentEncoder if "window" in settings else BiEncoder
    return architecture(no_source, **settings)


def from_packed(packed: Packed) -> Model:
    """The retriever that ``pack_model`` packed, be it without weights.

    Raises PelError if it did not.
    """
    contents = unpack(packed)
    return fill_model(from_settings(contents.settings), contents)


def entity_settings(retriever: Model) -> dict:
    """Those of its settings that decide the vectors of entities, by the names of ``BiEncoder``."""
    attrs = retriever.attrs
    return {
        "pooling": attrs.get("entity_pooling", attrs["pooling"]),
        "similarity": attrs["similarity"],
        "entity_length": attrs["entity_length"],
    }


def reads_documents(retriever: Model) -> bool:
    """Whether it reads a document once for all its mentions."""
    return "window" in retriever.attrs


def input_builder(retriever: Model) -> InputBuilder:
    """The builder of inputs for both towers; they share a tokenizer."""
    encoder = encoder_of(retriever.get_ref("mention"))
    attrs = retriever.attrs
    if reads_documents(retriever):
        builder, mention_length = WindowBuilder, attrs["window"]
    else:
        builder, mention_length = InputBuilder, attrs["mention_length"]
    return builder(
        encoder.tokenizer, mention_length, attrs["entity_length"], encoder.position_limit
    )
