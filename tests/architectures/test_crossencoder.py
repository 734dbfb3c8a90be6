"""The thinc wrapper of the cross-encoder."""

from __future__ import annotations

import pytest

from spacy_pel.architectures import (
    TrainedEncoder,
)
from spacy_pel.architectures.crossencoder import CrossEncoder
from spacy_pel.errors import PelError


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
