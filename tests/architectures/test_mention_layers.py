"""A mention tower of fewer layers than its source: which they are, and what it computes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from spacy_pel.architectures import (
    BiEncoder,
    DocumentEncoder,
    ScratchEncoder,
    encoder_of,
    retriever_from_settings,
    saved_settings,
)
from spacy_pel.errors import PelError
from spacy_pel.linking.retriever import Retriever
from spacy_pel.models.bert import build_transformer

from ..towers import ENTITIES, MENTIONS, TEXTS, bert_vector

N_LAYERS = 5
BIENCODER = {
    "shared": False,
    "pooling": "mean",
    "similarity": "cosine",
    "mention_length": 24,
    "entity_length": 24,
    "mixed_precision": False,
}
DOCUMENTS = {"shared": False, "window": 24, "entity_length": 24}
both_architectures = pytest.mark.parametrize(
    ("architecture", "given"), [(BiEncoder, BIENCODER), (DocumentEncoder, DOCUMENTS)]
)


def retriever(architecture, **given) -> Retriever:
    torch.manual_seed(0)
    source = ScratchEncoder(N_LAYERS, 16, 2, vocab_size=200, max_tokens=48)
    model = architecture(source, **given)
    model.initialize(X=TEXTS)
    return Retriever(model)


def layers(tower) -> list[dict[str, torch.Tensor]]:
    return [layer.state_dict() for layer in encoder_of(tower).transformer.encoder.layer]


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@both_architectures
@pytest.mark.parametrize(
    ("n", "kept"),
    [
        (1, [0]),
        (2, [0, 4]),
        (3, [0, 2, 4]),
        (4, [0, 1, 3, 4]),
        (5, [0, 1, 2, 3, 4]),
        (None, [0, 1, 2, 3, 4]),
    ],
)
def test_layers_are_spread_evenly(architecture, given, n: int | None, kept: list[int]) -> None:
    linker = retriever(architecture, **given, mention_layers=n)
    all_layers, mention_layers = layers(linker.entity_tower), layers(linker.mention_tower)
    assert not any(same(all_layers[0], other) for other in all_layers[1:])
    assert len(all_layers) == N_LAYERS and len(mention_layers) == len(kept)
    for i, layer in zip(kept, mention_layers, strict=True):
        assert same(layer, all_layers[i])
    for tower, count in ((linker.mention_tower, len(kept)), (linker.entity_tower, N_LAYERS)):
        encoder = encoder_of(tower)
        assert encoder.transformer.config.num_hidden_layers == count
    embeddings = [
        encoder_of(tower).transformer.embeddings.state_dict()
        for tower in (linker.mention_tower, linker.entity_tower)
    ]
    assert same(*embeddings)


def test_vectors_are_those_of_a_bert_of_these_layers() -> None:
    linker = retriever(BiEncoder, **BIENCODER, mention_layers=2)
    encoder, source = (encoder_of(tower).eval() for tower in linker.model.layers)
    config = {**json.loads(source.description()["config"]), "num_hidden_layers": 2}
    renamed = {"encoder.layer.0.": "encoder.layer.0.", "encoder.layer.4.": "encoder.layer.1."}
    weights = {
        name.replace(old, new): weight
        for name, weight in source.transformer.state_dict().items()
        for old, new in renamed.items()
        if old in name or (old.endswith("0.") and "encoder.layer" not in name)
    }
    found = linker.mention_vectors(MENTIONS)
    encoder.transformer = build_transformer(**config).eval()
    encoder.transformer.load_state_dict(weights)
    with torch.no_grad():
        tokens = linker.mention_inputs(MENTIONS).tokens
        expected = torch.stack([bert_vector(encoder, each) for each in tokens]).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


@both_architectures
def test_bytes_round_trip(architecture, given) -> None:
    linker = retriever(architecture, **given, mention_layers=2)
    saved = json.loads(json.dumps(saved_settings(linker.model)))
    assert saved["mention_layers"] == 2
    loaded = Retriever(retriever_from_settings(saved).from_bytes(linker.model.to_bytes()))
    assert [len(layers(tower)) for tower in loaded.model.layers] == [2, N_LAYERS]
    assert loaded.fingerprint() == linker.fingerprint()
    for one, other in (
        (loaded.mention_vectors(MENTIONS), linker.mention_vectors(MENTIONS)),
        (loaded.entity_vectors(ENTITIES), linker.entity_vectors(ENTITIES)),
    ):
        np.testing.assert_array_equal(one, other)


@both_architectures
@pytest.mark.parametrize("n", [6, -1, 0])
def test_layers_that_there_are_not(architecture, given, n: int) -> None:
    with pytest.raises(PelError, match=f"{n} layers of an encoder that has 5; choose from 1 to 5"):
        retriever(architecture, **given, mention_layers=n)


@both_architectures
def test_a_shared_tower_has_all_layers(architecture, given) -> None:
    with pytest.raises(
        PelError, match='mention_layers needs two towers, and they are one; set "shared" to false'
    ):
        retriever(architecture, **{**given, "shared": True}, mention_layers=2)
