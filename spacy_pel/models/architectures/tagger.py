"""The recogniser as a thinc model: one tower that scores the tags of words."""

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from thinc.api import Model

from ...text.token_inputs import EncoderInputs
from ...text.word_inputs import N_SHAPES
from ..encoders import Tagger
from .towers import AnyModel, EncoderSource, check_length, encoder_of, load_encoder, make_tower


def WordTagger(
    encoder: EncoderSource,
    length: int = 256,
    mixed_precision: bool = False,
    labels: Sequence[str] = (),
    n_hints: int = 0,
    whole_words: bool = False,
) -> Model[EncoderInputs, np.ndarray]:
    """Make a recogniser: words of documents -> scores and states, float32 [w, 1 + 2 * labels + d].

    The scores are those of the tags "outside", then "begins" and "inside" of each label.
    ``initialize(X=texts, Y=labels)`` loads the weights.

    Args:
        encoder: Source of the initial weights. Three layers of a small BERT suffice:
            ``PretrainedEncoder`` has the setting ``layers``.
        length: The maximum number of tokens of a window, 16 or more.
        mixed_precision: See ``BiEncoder``.
        labels: The labels of a trained model. ``initialize`` sets those of a new one.
        n_hints: The number of other groups of names to distinguish. The component sets it.
        whole_words: Read a word as one token with the mean of the embeddings of its word pieces. A text
            then has a quarter fewer tokens.

    Raises:
        PelError: The length is too short.
    """
    check_length("length", length, 16)
    n_tags, n_features = _sizes(labels, n_hints)
    tagger = Tagger(n_tags=n_tags, n_features=n_features, mixed_precision=mixed_precision)
    return make_tower(
        tagger,
        "word_tagger",
        init=partial(_init, encoder),
        attrs={
            "length": length,
            "mixed_precision": mixed_precision,
            "labels": list(labels),
            "n_hints": n_hints,
            "whole_words": whole_words,
        },
    )


def _sizes(labels: Sequence[str], n_hints: int) -> tuple[int, int]:
    """Return the number of tags and the number of features of a word.

    The features are the shape of the word, and whether a name of the knowledge base begins or continues at
    the word: for the names of each label, of each hint, and for other names.
    """
    return 1 + 2 * len(labels), 2 * (len(labels) + n_hints + 1) + N_SHAPES


def _init(encoder: EncoderSource, model: AnyModel, X: Iterable[str], Y: Sequence[str]) -> AnyModel:
    tagger = encoder_of(model)
    tagger.n_tags, tagger.n_features = _sizes(Y, model.attrs["n_hints"])
    model.attrs["labels"] = list(Y)
    return load_encoder(encoder, None, model, X)
