"""The retriever that reads a document once for all its mentions."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from functools import partial

from thinc.api import Model

from ..models.encoders import BertEncoder, WindowEncoder
from ..reading.document_windows import WindowReader
from .encoder_sources import EncoderSource
from .retriever_model import Architecture, entity_settings_of, make_retriever
from .setting_checks import check_choice, check_length


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
    own tokens. The mention tower reads ``WindowInputs``. The entity tower is that of ``BiEncoder``.

    Args:
        encoder: Where the weights come from at initialisation.
        shared: As for ``BiEncoder``.
        pooling: The vector of a mention is the "mean" of its tokens, its "start" or its "end".
        entity_pooling: The pooling of entities, as ``pooling`` of ``BiEncoder``.
        similarity: As for ``BiEncoder``.
        window: The most tokens of a window (``document_windows``).
        entity_length: The most tokens of an entity's input.
        mixed_precision: As for ``BiEncoder``.
        mention_layers: As for ``BiEncoder``.
        n_numbers: As for ``BiEncoder``.

    Raises:
        PelError: If a pooling or the similarity is unknown, a length is too short, or
            ``mention_layers`` is set for a shared tower.
    """
    check_choice("pooling", pooling, "mean", "start", "end")
    check_choice("entity_pooling", entity_pooling, "mean", "focus", "both", "cls")
    check_choice("similarity", similarity, "cosine", "dot")
    check_length("window", window, 16)
    check_length("entity_length", entity_length, 4)
    of_entities = entity_settings_of(entity_pooling, similarity, entity_length, n_numbers)
    architecture = Architecture(
        "spacy-pel.DocumentEncoder.v1",
        {
            **of_entities,
            "shared": shared,
            "pooling": pooling,
            "entity_pooling": entity_pooling,
            "window": window,
            "mixed_precision": mixed_precision,
            "mention_layers": mention_layers,
        },
        of_entities,
        partial(_reader, window),
    )

    def make_encoder() -> WindowEncoder:
        return WindowEncoder(
            mention_pooling=pooling,
            pooling=entity_pooling,
            normalize=similarity == "cosine",
            mixed_precision=mixed_precision,
            n_numbers=n_numbers,
        )

    return make_retriever(
        architecture, encoder, make_encoder, shared=shared, mention_layers=mention_layers
    )


def _reader(length: int, encoder: BertEncoder) -> WindowReader:
    return WindowReader(encoder.tokenizer, length, encoder.position_limit)
