"""The retriever that reads each mention in a text of its own (PEL, section 5.2)."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from functools import partial

from thinc.api import Model

from ..models.encoders import BertEncoder, TextEncoder
from ..reading.marked_texts import MarkedTextReader
from .encoder_sources import EncoderSource
from .retriever_model import Architecture, entity_settings_of, make_retriever
from .setting_checks import check_choice, check_length


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
    tree_numbers: bool | dict[str, str] = False,
) -> Model:
    """Retriever: a mention tower and an entity tower (PEL, section 5.2).

    ``initialize(X=texts)`` fetches the weights. Both towers read ``TextInputs``.

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
        tree_numbers: Whether an entity is read with the places of its types in UMLS's hierarchy, such
            as A1.2.3.5, as KRISSBERT reads it. They are taken from the KB at initialisation. A
            saved retriever has them by the names of the types.

    Raises:
        PelError: If the pooling or the similarity is unknown, a length is too short, or
            ``mention_layers`` is set for a shared tower.
    """
    check_choice("pooling", pooling, "mean", "focus", "both", "cls")
    check_choice("similarity", similarity, "cosine", "dot")
    check_length("mention_length", mention_length, 8)
    check_length("entity_length", entity_length, 4)
    of_entities = entity_settings_of(pooling, similarity, entity_length, n_numbers, tree_numbers)
    architecture = Architecture(
        "spacy-pel.BiEncoder.v1",
        {
            **of_entities,
            "shared": shared,
            "mention_length": mention_length,
            "mixed_precision": mixed_precision,
            "mention_layers": mention_layers,
        },
        of_entities,
        partial(_reader, mention_length),
    )

    def make_encoder() -> TextEncoder:
        return TextEncoder(
            pooling=pooling,
            normalize=similarity == "cosine",
            mixed_precision=mixed_precision,
            n_numbers=n_numbers,
        )

    return make_retriever(
        architecture, encoder, make_encoder, shared=shared, mention_layers=mention_layers
    )


def _reader(length: int, encoder: BertEncoder) -> MarkedTextReader:
    return MarkedTextReader(encoder.tokenizer, length, encoder.position_limit)
