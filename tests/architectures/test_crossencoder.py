"""The thinc wrapper of the cross-encoder, and encoders taken from a trained linker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from thinc.api import Adam

from spacy_pel.architectures import (
    TrainedEncoder,
    encoder_of,
    is_initialized,
    set_dropout,
)
from spacy_pel.architectures.crossencoder import (
    CrossEncoder,
    pack_crossencoder,
    pair_reader,
    unpack_crossencoder,
)
from spacy_pel.errors import PelError
from spacy_pel.reading import text_inputs
from spacy_pel.reading.text_inputs import TextInputs

from ..towers import ENTITIES, MENTIONS, pair_score, reranker


def some_pairs(ranker) -> list:
    left, right = ranker.reader.mentions(MENTIONS), ranker.reader.entities(ENTITIES)
    return [ranker.reader.pair(m, e) for m in left for e in right]


def test_order_is_kept_and_a_batch_changes_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = reranker()
    pairs = some_pairs(ranker)
    scores = ranker.model.predict(TextInputs(pairs))
    assert scores.shape == (20, 1) and scores.dtype == np.float32
    encoder = encoder_of(ranker.model.layers[0]).eval()
    expected = [pair_score(encoder, pair).item() for pair in pairs]
    np.testing.assert_allclose(scores[:, 0], expected, atol=1e-5)
    monkeypatch.setattr(text_inputs, "CORE_TOKENS", 50)
    np.testing.assert_allclose(ranker.model.predict(TextInputs(pairs)), scores, atol=1e-5)


def test_saved_and_loaded_with_its_settings() -> None:
    changes = {"length": 30, "retriever_weight": 32.0, "sure": 0.8, "mentions": 3}
    ranker = reranker(**changes)
    model = unpack_crossencoder(pack_crossencoder(ranker.model))
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
    assert not is_initialized(unpack_crossencoder(pack_crossencoder(empty)))


def test_dropout_is_set() -> None:
    model = reranker().model
    set_dropout(model, 0.3)
    modules = encoder_of(model.layers[0]).modules()
    assert {m.p for m in modules if isinstance(m, torch.nn.Dropout)} == {0.3}


def test_a_length_without_room_is_refused() -> None:
    with pytest.raises(PelError, match="length is 15 tokens; set it to 16 or more"):
        CrossEncoder(TrainedEncoder("any"), length=15)


def test_a_pair_is_256_tokens_long_unless_told() -> None:
    assert CrossEncoder(TrainedEncoder("any")).attrs["length"] == 256


@pytest.mark.parametrize("component", ["", "proxy_linker"])
def test_the_encoder_of_a_trained_linker(tiny_folder: Path, component: str) -> None:
    linker = spacy.load(tiny_folder).get_pipe("proxy_linker")
    source = encoder_of(linker.model.get_ref("mention"))
    model = CrossEncoder(TrainedEncoder(str(tiny_folder / component)), length=40)
    model.initialize(X=[])
    taken = encoder_of(model.layers[0])
    assert taken.tokenizer.to_str() == source.tokenizer.to_str()
    expected = source.transformer.state_dict()
    assert all(torch.equal(w, expected[k]) for k, w in taken.transformer.state_dict().items())
    assert pair_reader(model).length == 40


def test_a_folder_without_a_linker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PelError, match="no trained linker in .*; give the folder of a pipeline"):
        CrossEncoder(TrainedEncoder(str(tmp_path))).initialize(X=[])


@pytest.mark.parametrize("sure", [0.0, -1.0, 1.5])
def test_being_sure_is_a_probability(sure: float) -> None:
    with pytest.raises(PelError, match="it is a probability: give more than 0"):
        CrossEncoder(TrainedEncoder("any"), retriever_weight=32, sure=sure)


def test_being_sure_needs_the_retrievers_scores() -> None:
    with pytest.raises(PelError, match="scores do not count; give retriever_weight as well"):
        CrossEncoder(TrainedEncoder("any"), sure=0.8)


def test_a_number_of_mentions_is_not_below_0() -> None:
    with pytest.raises(
        PelError, match="mentions is -1; it is a number of mentions: give 0 or more"
    ):
        CrossEncoder(TrainedEncoder("any"), mentions=-1)
