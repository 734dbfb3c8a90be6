"""The reranker as a thinc model: one tower that scores pairs (PEL, appendix B)."""

from functools import partial

import numpy as np
from thinc.api import Model

from ...errors import PelError
from ...text.token_inputs import EncoderInputs
from ..encoders import PairScorer
from .towers import EncoderSource, check_length, load_encoder, make_tower


def CrossEncoder(
    encoder: EncoderSource,
    length: int = 256,
    mixed_precision: bool = False,
    retriever_weight: float = 0.0,
    sure: float = 1.0,
) -> Model[EncoderInputs, np.ndarray]:
    """Make a reranker: pairs of a mention and an entity -> scores, float32 [n, 1] (PEL, appendix B).

    ``initialize(X=texts)`` loads the weights. Pairs of similar length are scored together.

    Args:
        encoder: Source of the initial weights.
        length: The maximum number of tokens of a pair (``PairReader``), 16 or more.
        mixed_precision: See ``BiEncoder``.
        retriever_weight: The weight of the retriever's score, which is added to the score of the pair.
            0 uses the pair's score alone, as in the paper. With the alpha of the retriever's training
            (32), training starts from the retriever's ranking.
        sure: Rerank a mention only if the retriever gives its best candidate a lower probability. 1
            reranks all mentions.

    Raises:
        PelError: The length is too short, ``sure`` is no probability, or it is below 1 without a
            ``retriever_weight``.
    """
    check_length("length", length, 16)
    if not 0 < sure <= 1:
        raise PelError(f"sure is {sure:g}", "give a probability above 0 and up to 1")
    if sure < 1 and not retriever_weight:
        raise PelError(
            f"sure is {sure:g}, but without retriever_weight the retriever's scores do not count",
            "give retriever_weight as well, such as the alpha that the retriever was trained with",
        )
    return make_tower(
        PairScorer(mixed_precision=mixed_precision),
        "crossencoder",
        init=partial(load_encoder, encoder, None),
        attrs={
            "length": length,
            "mixed_precision": mixed_precision,
            "retriever_weight": retriever_weight,
            "sure": sure,
        },
    )
