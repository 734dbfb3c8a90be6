"""The retriever that reads a document once for all its mentions, as a thinc model."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from thinc.api import Model

from ..models.window_encoder import WindowEncoder
from .biencoder import check_choice, check_length, make_retriever
from .sources import EncoderSource


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
) -> Model:
    """Retriever whose mention tower reads documents in windows, each once for all its mentions.

    Mentions are marked all at once, by BERT's segment embedding, and pooled from their own tokens.
    The entity tower, and all that is not said here, is as of ``BiEncoder``.

    pooling: a mention's vector is the "mean" of its tokens, its "start" or its "end".
    entity_pooling: the ``pooling`` of ``BiEncoder``, of entities.
    window: the most tokens of a window (``windows``).
    Raises PelError on an unknown pooling or similarity, or lengths that are too short.
    """
    check_choice("pooling", pooling, "mean", "start", "end")
    check_choice("entity_pooling", entity_pooling, "mean", "focus", "both")
    check_choice("similarity", similarity, "cosine", "dot")
    check_length("window", window, 16)
    check_length("entity_length", entity_length, 4)

    def make_encoder() -> WindowEncoder:
        return WindowEncoder(
            mention_pooling=pooling,
            pooling=entity_pooling,
            normalize=similarity == "cosine",
            mixed_precision=mixed_precision,
        )

    attrs = {
        "shared": shared,
        "pooling": pooling,
        "entity_pooling": entity_pooling,
        "similarity": similarity,
        "window": window,
        "entity_length": entity_length,
        "mixed_precision": mixed_precision,
        "mention_layers": mention_layers,
    }
    return make_retriever("documentencoder", encoder, make_encoder, attrs)
