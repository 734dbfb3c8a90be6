import numpy as np
import pytest
import torch

from spacy_pel.models.architectures import (
    BiEncoder,
    DocumentEncoder,
    Retriever,
    ScratchEncoder,
    encoder_of,
    entity_fingerprint,
    entity_vectors,
    fingerprint,
    pack_retriever,
    unpack_retriever,
)

from ...towers import ENTITIES, TEXTS, retriever


def test_a_fingerprint_is_the_same_with_every_version_of_transformers(monkeypatch) -> None:
    linker = retriever()
    expected, packed = fingerprint(linker), pack_retriever(linker)
    monkeypatch.setattr("transformers.configuration_utils.__version__", "99.0")
    assert fingerprint(unpack_retriever(packed)) == expected


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
    return model


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
    assert entity_fingerprint(one) == entity_fingerprint(other)
    assert fingerprint(one) != fingerprint(other)
    np.testing.assert_array_equal(entity_vectors(one, ENTITIES), entity_vectors(other, ENTITIES))


@pytest.mark.parametrize("architecture", [BiEncoder, DocumentEncoder])
def test_an_entity_fingerprint_is_of_what_decides_the_vectors_of_entities(architecture) -> None:
    linker = begun(architecture, shared=False)
    of_entities, whole = entity_fingerprint(linker), fingerprint(linker)
    assert whole == fingerprint(begun(architecture, shared=False)) and len(whole) == 32
    move_weights(linker.get_ref("mention"))
    assert entity_fingerprint(linker) == of_entities and fingerprint(linker) != whole
    pooling = "pooling" if architecture is BiEncoder else "entity_pooling"
    changes = ({pooling: "both"}, {"similarity": "dot"}, {"entity_length": 23})
    others = [entity_fingerprint(begun(architecture, shared=False, **each)) for each in changes]
    move_weights(linker.get_ref("entity"))
    others.append(entity_fingerprint(linker))
    encoder_of(linker.get_ref("entity")).tokenizer.add_tokens(["anything"])
    others.append(entity_fingerprint(linker))
    assert len({of_entities, *others}) == len(others) + 1
