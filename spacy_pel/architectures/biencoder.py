"""The retriever as a thinc model: two towers, one set of weights or two (PEL, section 5.2)."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from thinc.api import Model

from ..errors import PelError
from ..inputs import InputBuilder
from ..models.encoder import TextEncoder
from .sources import EncoderSource, no_source
from .towers import encoder_of, load_encoder, make_tower


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

    ``initialize(X=texts)`` fetches the weights. Input and output are the towers' (``towers``).
    """
    if pooling not in ("mean", "focus", "both"):
        raise PelError(f'unknown pooling "{pooling}"; choose "mean", "focus" or "both"')
    if similarity not in ("cosine", "dot"):
        raise PelError(f'unknown similarity "{similarity}"; choose "cosine" or "dot"')
    towers = [
        make_tower(
            TextEncoder(
                pooling=pooling,
                normalize=similarity == "cosine",
                mixed_precision=mixed_precision,
            )
        )
        for _ in range(1 if shared else 2)
    ]
    return Model(
        "biencoder",
        _refuse_forward,
        init=load_encoder(encoder),
        layers=towers,
        refs={"mention": towers[0], "entity": towers[-1]},
        attrs={
            "shared": shared,
            "pooling": pooling,
            "similarity": similarity,
            "mention_length": mention_length,
            "entity_length": entity_length,
            "mixed_precision": mixed_precision,
        },
    )


def settings(biencoder: Model) -> dict:
    """The arguments of ``BiEncoder`` but for the source of weights, as plain data."""
    return dict(biencoder.attrs)


def from_settings(settings: dict) -> Model:
    """A bi-encoder without weights, to be filled by ``from_bytes``."""
    return BiEncoder(no_source, **settings)


def input_builder(biencoder: Model) -> InputBuilder:
    """The builder of inputs for both towers; they share a tokenizer."""
    encoder = encoder_of(biencoder.get_ref("mention"))
    attrs = biencoder.attrs
    return InputBuilder(
        encoder.tokenizer, attrs["mention_length"], attrs["entity_length"], encoder.position_limit
    )


def _refuse_forward(model: Model, X, is_train: bool):
    raise NotImplementedError('use a tower: model.get_ref("mention") or model.get_ref("entity")')
