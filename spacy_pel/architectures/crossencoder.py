"""The reranker as a thinc model: one tower that scores pairs (PEL, appendix B)."""

from collections.abc import Callable

import numpy as np
from thinc.api import Model

from ..errors import PelError
from ..models.packed_weights import Packed, unpack
from ..models.pair_scorer import PairScorer
from ..reading.inputs import PairBuilder
from .biencoder import check_length
from .sources import EncoderSource, no_source
from .towers import TowerInputs, encoder_of, fill_model, load_encoder, make_tower


def CrossEncoder(
    encoder: EncoderSource,
    length: int = 256,
    mixed_precision: bool = False,
    retriever_weight: float = 0.0,
    sure: float = 1.0,
) -> Model[TowerInputs, np.ndarray]:
    """Reranker: pairs of a mention and an entity -> scores, float32 [n, 1] (PEL, appendix B).

    encoder: where the weights come from at initialisation.
    length: the most tokens of a pair (``inputs.PairBuilder``), 16 or more.
    mixed_precision: bfloat16 where it is safe, on processors that have it: a large gain there.
    retriever_weight: what the retriever's score counts beside that of the pair. 0: nothing (the
        paper). With the alpha that the retriever was trained with (32), training begins where the
        retriever stands, which suits an encoder or a corpus that is too small to begin anew.
    Raises PelError if the length is less.

    ``initialize(X=texts)`` fetches the weights. Input is that of a tower (``towers``), be it of
    how many mentions and documents: pairs of like length are scored together.
    """
    check_length("length", length, 16)
    if not 0 < sure <= 1:
        raise PelError(f"sure is {sure:g}", "it is a probability: give more than 0, and 1 at most")
    if sure < 1 and not retriever_weight:
        raise PelError(
            f"sure is {sure:g}, a probability by the retriever's scores, which count nothing",
            "give retriever_weight as well, such as the alpha that the retriever was trained with",
        )
    return Model(
        "crossencoder",
        _forward,
        init=load_encoder(encoder),
        layers=[make_tower(PairScorer(mixed_precision=mixed_precision))],
        attrs={
            "length": length,
            "mixed_precision": mixed_precision,
            "retriever_weight": retriever_weight,
            "sure": sure,
        },
    )


def from_packed(packed: Packed) -> Model:
    """The cross-encoder that ``pack_model`` packed. Raises PelError if it did not."""
    contents = unpack(packed)
    return fill_model(CrossEncoder(no_source, **contents.settings), contents)


def pair_builder(crossencoder: Model) -> PairBuilder:
    """The builder of its inputs."""
    encoder = encoder_of(crossencoder.layers[0])
    return PairBuilder(encoder.tokenizer, crossencoder.attrs["length"], encoder.position_limit)


def _forward(
    model: Model, inputs: TowerInputs, is_train: bool
) -> tuple[np.ndarray, Callable[[np.ndarray], list[np.ndarray]]]:
    return model.layers[0](inputs, is_train)
