"""Retrievers in files: of this version, and of the versions that did not name the architecture."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from thinc.api import Model

from spacy_pel.architectures import (
    BiEncoder,
    DocumentEncoder,
    ScratchEncoder,
    SharedEncoder,
    architecture_of,
    pack_retriever,
    saved_settings,
    unpack_retriever,
)
from spacy_pel.architectures.towers import pack_model
from spacy_pel.linking.retriever import Retriever

from ..towers import ENTITIES, MENTIONS, TEXTS

SOURCE = ScratchEncoder(2, 32, 4, vocab_size=200, max_tokens=48)
COSINES = {"similarity": "cosine", "entity_length": 24, "mixed_precision": False}
LISTENER = Model("listener", lambda model, docs, is_train: (docs, None), dims={"nO": 12})
MODELS = {
    "BiEncoder": lambda: BiEncoder(
        SOURCE, shared=False, pooling="both", mention_length=24, **COSINES, mention_layers=1
    ),
    "DocumentEncoder": lambda: DocumentEncoder(SOURCE, window=16, **COSINES),
    "SharedEncoder": lambda: SharedEncoder(LISTENER, SOURCE, pooling="end", **COSINES),
}
every_architecture = pytest.mark.parametrize(("name", "make"), MODELS.items())


def initialised(make: Callable[[], Model]) -> Model:
    torch.manual_seed(0)
    return make().initialize(X=TEXTS)


@every_architecture
def test_a_file_names_the_architecture_and_its_settings(name: str, make) -> None:
    model = initialised(make)
    architecture = architecture_of(model)
    assert architecture.name == f"spacy-pel.{name}.v1"
    given = ["tok2vec", "encoder"] if name == "SharedEncoder" else ["encoder"]
    named = {"architecture": architecture.name, "given": given}
    assert saved_settings(model) == {**architecture.settings, **named}
    packed = pack_retriever(model)
    assert pack_retriever(unpack_retriever(packed)) == packed


@every_architecture
@pytest.mark.parametrize("is_named", [True, False])
def test_a_file_opens_with_the_same_fingerprints_and_vectors(
    name: str, make, is_named: bool
) -> None:
    model = initialised(make)
    old = pack_model(model, architecture_of(model).settings)
    loaded = unpack_retriever(pack_retriever(model) if is_named else old, LISTENER)
    one, other = Retriever(model), Retriever(loaded)
    assert architecture_of(loaded).name == f"spacy-pel.{name}.v1"
    assert other.fingerprint() == one.fingerprint()
    assert other.entity_fingerprint() == one.entity_fingerprint()
    np.testing.assert_array_equal(other.entity_vectors(ENTITIES), one.entity_vectors(ENTITIES))
    if name == "SharedEncoder":
        assert loaded.get_ref("tok2vec") is LISTENER
    else:
        np.testing.assert_array_equal(
            other.mention_vectors(MENTIONS), one.mention_vectors(MENTIONS)
        )
