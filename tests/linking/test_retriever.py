import numpy as np
import pytest
import torch

from spacy_pel.linking.retriever import Retriever
from spacy_pel.models.architectures import (
    BiEncoder,
    DocumentEncoder,
    ScratchEncoder,
    encoder_of,
    pack_retriever,
    unpack_retriever,
)

from ..towers import ENTITIES, TEXTS, retriever


def test_a_fingerprint_is_the_same_with_every_version_of_transformers(monkeypatch) -> None:
    linker = retriever()
    fingerprint, packed = linker.fingerprint(), pack_retriever(linker.model)
    monkeypatch.setattr("transformers.configuration_utils.__version__", "99.0")
    assert Retriever(unpack_retriever(packed)).fingerprint() == fingerprint


OF_BOTH = {"similarity": "cosine", "entity_length": 24, "mixed_precision": False}


def begun(architecture=BiEncoder, **changes) -> Retriever:
    """One of two layers, the same at every call, that has just been initialised."""
    if architecture is BiEncoder:
        own = {"shared": True, "pooling": "focus", "mention_length": 24}
    else:
        own = {"shared": True, "pooling": "mean", "entity_pooling": "focus", "window": 24}
    torch.manual_seed(0)
    source = ScratchEncoder(2, 32, 4, vocab_size=200, max_tokens=48)
    model = architecture(source, **{**OF_BOTH, **own, **changes})
    model.initialize(X=TEXTS)
    return Retriever(model)


def move_weights(tower) -> None:
    with torch.no_grad():
        encoder_of(tower).transformer.encoder.layer[0].output.dense.bias[3] += 1e-3


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        (BiEncoder, {"shared": False}),
        (BiEncoder, {"shared": False, "mention_layers": 1}),
        (BiEncoder, {"mention_length": 20}),
        (DocumentEncoder, {}),
        (DocumentEncoder, {"shared": False, "window": 16}),
        (DocumentEncoder, {"shared": False, "mention_layers": 1}),
    ],
)
def test_whoever_makes_the_same_vectors_of_entities_has_the_same_entity_fingerprint(
    architecture, changes: dict
) -> None:
    one, other = begun(), begun(architecture, **changes)
    assert one.entity_fingerprint() == other.entity_fingerprint()
    assert one.fingerprint() != other.fingerprint()
    np.testing.assert_array_equal(one.entity_vectors(ENTITIES), other.entity_vectors(ENTITIES))


@pytest.mark.parametrize("architecture", [BiEncoder, DocumentEncoder])
def test_an_entity_fingerprint_is_of_what_decides_the_vectors_of_entities(architecture) -> None:
    linker = begun(architecture, shared=False)
    fingerprint, whole = linker.entity_fingerprint(), linker.fingerprint()
    assert whole == begun(architecture, shared=False).fingerprint() and len(whole) == 32
    move_weights(linker.mention_tower)
    assert linker.entity_fingerprint() == fingerprint and linker.fingerprint() != whole
    pooling = "pooling" if architecture is BiEncoder else "entity_pooling"
    changes = ({pooling: "both"}, {"similarity": "dot"}, {"entity_length": 23})
    others = [begun(architecture, shared=False, **each).entity_fingerprint() for each in changes]
    move_weights(linker.entity_tower)
    others.append(linker.entity_fingerprint())
    encoder_of(linker.entity_tower).tokenizer.add_tokens(["anything"])
    others.append(linker.entity_fingerprint())
    assert len({fingerprint, *others}) == len(others) + 1
