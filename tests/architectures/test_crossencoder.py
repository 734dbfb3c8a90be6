"""The thinc wrapper of the cross-encoder, and encoders taken from a trained linker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from thinc.api import Adam

from spacy_pel.architectures import (
    TowerInputs,
    TrainedEncoder,
    encoder_of,
    is_initialized,
    pack_model,
    set_dropout,
    settings,
    towers,
)
from spacy_pel.architectures.crossencoder import CrossEncoder, from_packed, pair_builder
from spacy_pel.errors import PelError

from ..towers import ENTITIES, MENTIONS, pair_score, reranker


def some_pairs(ranker) -> list:
    left, right = ranker.builder.mentions(MENTIONS), ranker.builder.entities(ENTITIES)
    return [ranker.builder.pair(m, e) for m in left for e in right]


def test_order_is_kept_and_a_batch_changes_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = reranker()
    pairs = some_pairs(ranker)
    scores = ranker.model.predict(TowerInputs(pairs))
    assert scores.shape == (20, 1) and scores.dtype == np.float32
    encoder = encoder_of(ranker.model.layers[0]).eval()
    expected = [pair_score(encoder, pair).item() for pair in pairs]
    np.testing.assert_allclose(scores[:, 0], expected, atol=1e-5)
    monkeypatch.setattr(towers, "CORE_TOKENS", 50)
    np.testing.assert_allclose(ranker.model.predict(TowerInputs(pairs)), scores, atol=1e-5)


def test_saved_and_loaded_with_its_settings() -> None:
    changes = {"length": 30, "retriever_weight": 32.0, "sure": 0.8}
    ranker = reranker(**changes)
    model = from_packed(pack_model(ranker.model))
    assert settings(model) == {**changes, "mixed_precision": False}
    pairs = TowerInputs(some_pairs(ranker))
    np.testing.assert_array_equal(model.predict(pairs), ranker.model.predict(pairs))
    output, backprop = model.begin_update(pairs)  # what was loaded can be trained on
    backprop(np.ones_like(output))
    model.finish_update(Adam(0.01))
    assert not np.allclose(model.predict(pairs), output)
    with pytest.raises(PelError, match="not initialised again"):
        model.initialize(X=[])
    empty = CrossEncoder(TrainedEncoder("any"))
    assert not is_initialized(from_packed(pack_model(empty)))


def test_dropout_is_set() -> None:
    model = reranker().model
    set_dropout(model, 0.3)
    modules = encoder_of(model.layers[0]).modules()
    assert {m.p for m in modules if isinstance(m, torch.nn.Dropout)} == {0.3}


def test_a_length_without_room_is_refused() -> None:
    with pytest.raises(PelError, match="length is 15 tokens; set it to 16 or more"):
        CrossEncoder(TrainedEncoder("any"), length=15)


def test_a_pair_is_256_tokens_long_unless_told() -> None:
    assert settings(CrossEncoder(TrainedEncoder("any")))["length"] == 256


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
    assert pair_builder(model).length == 40


def test_a_folder_without_a_linker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PelError, match="no trained linker in .*; give the folder of a pipeline"):
        CrossEncoder(TrainedEncoder(str(tmp_path))).initialize(X=[])


@pytest.mark.parametrize("sure", [0.0, -1.0, 1.5])
def test_being_sure_is_a_probability(sure: float) -> None:
    with pytest.raises(PelError, match="it is a probability: give more than 0"):
        CrossEncoder(TrainedEncoder("any"), retriever_weight=32, sure=sure)


def test_being_sure_needs_the_retrievers_scores() -> None:
    with pytest.raises(PelError, match="which count nothing; give retriever_weight as well"):
        CrossEncoder(TrainedEncoder("any"), sure=0.8)
