"""The recogniser as a thinc model: one tower that scores the tags of words."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from thinc.api import Model

from ..models.packed_weights import Packed, unpack
from ..models.tagger import Tagger
from ..reading.words import N_SHAPES, WordInputs, WordReader
from .towers import (
    EncoderSource,
    check_length,
    encoder_of,
    fill_model,
    load_encoder,
    make_tower,
    no_source,
    pack_model,
)


def WordTagger(
    encoder: EncoderSource,
    length: int = 256,
    mixed_precision: bool = False,
    labels: Sequence[str] = (),
) -> Model[WordInputs, np.ndarray]:
    """Recogniser: the words of documents -> scores of their tags, float32 [w, 1 + 2 * labels].

    The tags are "outside", then "begins" and "inside" of each label. ``initialize(X=texts, Y=labels)``
    fetches the weights. The model reads ``WordInputs``.

    Args:
        encoder: Where the weights come from at initialisation. Three layers of a small BERT suffice:
            ``PretrainedEncoder`` has the setting ``layers``.
        length: The most tokens of a window of a document, 16 or more.
        mixed_precision: Compute in bfloat16 where it is safe, on processors that have it. There it is
            much faster.
        labels: The labels of a trained model. ``initialize`` gives those of a new one.

    Raises:
        PelError: If the length is too short.
    """
    check_length("length", length, 16)
    tagger = Tagger(
        n_tags=n_tags(labels), n_features=n_features(labels), mixed_precision=mixed_precision
    )
    return Model(
        "word_tagger",
        _forward,
        init=partial(_init, load_encoder(encoder)),
        layers=[make_tower(tagger)],
        attrs={"length": length, "mixed_precision": mixed_precision, "labels": list(labels)},
    )


def n_tags(labels: Sequence[str]) -> int:
    """The number of tags: "outside", and for each label "begins" and "inside"."""
    return 1 + 2 * len(labels)


def n_features(labels: Sequence[str]) -> int:
    """The number of features of a word.

    A name of the knowledge base begins there or goes on there, whose entity belongs to a label, or
    to none; and the shapes of words.
    """
    return 2 * (len(labels) + 1) + N_SHAPES


def pack_tagger(model: Model) -> bytes:
    """The weights and the settings of a recogniser, as bytes."""
    return pack_model(model, dict(model.attrs))


def unpack_tagger(packed: Packed) -> Model:
    """The recogniser that ``pack_tagger`` packed.

    Raises:
        PelError: If it is no packed recogniser.
    """
    contents = unpack(packed)
    return fill_model(WordTagger(no_source, **contents.settings), contents)


def word_reader(model: Model) -> WordReader:
    """What turns documents into the inputs of the recogniser."""
    encoder = encoder_of(model.layers[0])
    return WordReader(encoder.tokenizer, min(model.attrs["length"], encoder.position_limit))


def _init(load: Callable[..., Model], model: Model, X: Iterable[str], Y: Sequence[str]) -> Model:
    tagger = encoder_of(model.layers[0])
    tagger.n_tags, tagger.n_features = n_tags(Y), n_features(Y)
    model.attrs["labels"] = list(Y)
    return load(model, X)


def _forward(
    model: Model, inputs: WordInputs, is_train: bool
) -> tuple[np.ndarray, Callable[[np.ndarray], list[np.ndarray]]]:
    return model.layers[0](inputs, is_train)
