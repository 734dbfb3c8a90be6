"""The recogniser as a thinc model: one tower that gives words scores of tags, and states."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from thinc.api import Model

from ..models.tagger import Tagger
from ..reading.text_inputs import WindowInputs
from ..reading.words import N_SHAPES, WordReader
from .towers import EncoderSource, check_length, encoder_of, load_encoder, make_tower, one_tower


def WordTagger(
    encoder: EncoderSource,
    length: int = 256,
    mixed_precision: bool = False,
    labels: Sequence[str] = (),
) -> Model[WindowInputs, np.ndarray]:
    """Recogniser: the words of documents -> their scores and states, float32 [w, 1 + 2 * labels + d].

    The scores are of the tags "outside", then "begins" and "inside" of each label. ``initialize(X=texts, Y=labels)``
    fetches the weights. The model reads ``WindowInputs``.

    Args:
        encoder: Where the weights come from at initialisation. Three layers of a small BERT suffice:
            ``PretrainedEncoder`` has the setting ``layers``.
        length: The most tokens of a window of a document, 16 or more.
        mixed_precision: As of ``BiEncoder``.
        labels: The labels of a trained model. ``initialize`` gives those of a new one.

    Raises:
        PelError: If the length is too short.
    """
    check_length("length", length, 16)
    sizes = dict(zip(("n_tags", "n_features"), _sizes(labels)))
    tagger = Tagger(**sizes, mixed_precision=mixed_precision)
    return Model(
        "word_tagger",
        one_tower,
        init=partial(_init, load_encoder(encoder)),
        layers=[make_tower(tagger)],
        attrs={"length": length, "mixed_precision": mixed_precision, "labels": list(labels)},
    )


def word_reader(model: Model) -> WordReader:
    """What turns documents into the inputs of the recogniser."""
    encoder = encoder_of(model.layers[0])
    return WordReader(encoder.tokenizer, min(model.attrs["length"], encoder.position_limit))


def n_tags(model: Model) -> int:
    """How many of the numbers that it gives a word are scores; the others are the word's state."""
    return _sizes(model.attrs["labels"])[0]


def _sizes(labels: Sequence[str]) -> tuple[int, int]:
    """The number of tags, and that of the features of a word.

    The features are: a name of the knowledge base begins there or goes on there, whose entity
    belongs to a label, or to none; and the shapes of words.
    """
    return 1 + 2 * len(labels), 2 * (len(labels) + 1) + N_SHAPES


def _init(load: Callable[..., Model], model: Model, X: Iterable[str], Y: Sequence[str]) -> Model:
    tagger = encoder_of(model.layers[0])
    tagger.n_tags, tagger.n_features = _sizes(Y)
    model.attrs["labels"] = list(Y)
    return load(model, X)
