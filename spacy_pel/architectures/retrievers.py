"""What the rest of the package needs to know of a retriever's architecture, whichever it is."""

from __future__ import annotations

from thinc.api import Model

from ..models.packed_weights import Packed, unpack
from ..reading.document_windows import WindowBuilder
from ..reading.inputs import InputBuilder
from ..reading.shared_states import StatesBuilder
from .biencoder import BiEncoder
from .document import DocumentEncoder
from .shared import SharedEncoder, Tok2Vec
from .sources import no_source
from .towers import encoder_of, fill_model


def settings(retriever: Model) -> dict:
    """The arguments of its architecture but for the source of weights, as plain data."""
    return dict(retriever.attrs)


def from_settings(settings: dict, tok2vec: Tok2Vec | None = None) -> Model:
    """A retriever without weights. tok2vec: of a ``SharedEncoder``, which cannot be saved."""
    if "window" in settings:
        return DocumentEncoder(no_source, **settings)
    if "mention_length" in settings:
        return BiEncoder(no_source, **settings)
    return SharedEncoder(tok2vec, no_source, **settings)


def from_packed(packed: Packed, tok2vec: Tok2Vec | None = None) -> Model:
    """The retriever that ``pack_model`` packed, be it without weights.

    tok2vec: see ``from_settings``. Raises PelError if nothing was packed so.
    """
    contents = unpack(packed)
    return fill_model(from_settings(contents.settings, tok2vec), contents)


def shares_reading(retriever: Model) -> bool:
    """Whether its mentions are read by another component, be that there or not."""
    return not {"window", "mention_length"} & retriever.attrs.keys()


def tok2vec_of(retriever: Model) -> Tok2Vec | None:
    """What reads documents for a ``SharedEncoder``, None if that is not there; None of others."""
    return retriever.maybe_get_ref("tok2vec")


def entity_settings(retriever: Model) -> dict:
    """Those of its settings that decide the vectors of entities, by the names of ``BiEncoder``."""
    attrs = retriever.attrs
    return {
        "pooling": attrs.get("entity_pooling", attrs["pooling"]),
        "similarity": attrs["similarity"],
        "entity_length": attrs["entity_length"],
    }


def reads_documents(retriever: Model) -> bool:
    """Whether a document is read once for all its mentions."""
    return "mention_length" not in retriever.attrs


def input_builder(retriever: Model) -> InputBuilder:
    """The builder of inputs for both towers; they share a tokenizer."""
    encoder = encoder_of(retriever.get_ref("entity"))
    attrs = retriever.attrs
    if "window" in attrs:
        builder, mention_length = WindowBuilder, attrs["window"]
    elif "mention_length" in attrs:
        builder, mention_length = InputBuilder, attrs["mention_length"]
    else:
        builder, mention_length = StatesBuilder, 0  # it makes no inputs of mentions
    return builder(
        encoder.tokenizer, mention_length, attrs["entity_length"], encoder.position_limit
    )
