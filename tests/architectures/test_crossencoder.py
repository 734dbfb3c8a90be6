"""The thinc wrapper of the cross-encoder."""

from __future__ import annotations

import numpy as np
import pytest
from thinc.api import Adam

from spacy_pel.architectures import (
    TrainedEncoder,
    is_initialized,
    pack_model,
    unpack_model,
)
from spacy_pel.architectures.crossencoder import CrossEncoder
from spacy_pel.errors import PelError
from spacy_pel.reading.text_inputs import TextInputs

from ..towers import ENTITIES, MENTIONS, reranker


def some_pairs(ranker) -> list:
    left, right = ranker.reader.mentions(MENTIONS), ranker.reader.entities(ENTITIES)
    return [ranker.reader.pair(m, e) for m in left for e in right]


def test_saved_and_loaded_with_its_settings() -> None:
    changes = {"length": 30, "retriever_weight": 32.0, "sure": 0.8}
    ranker = reranker(**changes)
    model = unpack_model(pack_model(ranker.model), CrossEncoder)
    assert model.attrs == {**changes, "mixed_precision": False}
    pairs = TextInputs(some_pairs(ranker))
    np.testing.assert_array_equal(model.predict(pairs), ranker.model.predict(pairs))
    output, backprop = model.begin_update(pairs)  # what was loaded can be trained on
    backprop(np.ones_like(output))
    model.finish_update(Adam(0.01))
    assert not np.allclose(model.predict(pairs), output)
    with pytest.raises(PelError, match="not initialised again"):
        model.initialize(X=[])
    empty = CrossEncoder(TrainedEncoder("any"))
    assert not is_initialized(unpack_model(pack_model(empty), CrossEncoder))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length": 15}, "length is 15 tokens; set it to 16 or more"),
        ({"retriever_weight": 32, "sure": 0.0}, "sure is 0; it is a probability: give more than 0"),
        ({"retriever_weight": 32, "sure": 1.5}, "it is a probability: give more than 0"),
        ({"sure": 0.8}, "scores do not count; give retriever_weight as well"),
    ],
)
def test_wrong_settings(given: dict, message: str) -> None:
    with pytest.raises(PelError, match=message):
        CrossEncoder(TrainedEncoder("any"), **given)
