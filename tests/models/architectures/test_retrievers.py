from collections.abc import Callable

import numpy as np
import pytest
import torch
from thinc.api import Adam, Model

from spacy_pel.errors import PelError
from spacy_pel.models.architectures import (
    BiEncoder,
    DocumentEncoder,
    ScratchEncoder,
    SharedEncoder,
    encoder_of,
    entity_fingerprint,
    entity_vectors,
    fingerprint,
    pack_retriever,
    saved_settings,
    unpack_retriever,
)
from spacy_pel.models.architectures.crossencoder import CrossEncoder
from spacy_pel.text.token_inputs import text_inputs

from ...towers import ENTITIES, MENTIONS, TEXTS

N_LAYERS = 5
SOURCE = ScratchEncoder(N_LAYERS, 16, 2, vocab_size=200, max_tokens=48)
COSINES = {"similarity": "cosine", "entity_length": 24, "mixed_precision": False}
BIENCODER = {**COSINES, "shared": False, "pooling": "mean", "mention_length": 24}
DOCUMENTS = {**COSINES, "shared": False, "window": 24}
LISTENER = Model("listener", lambda model, docs, is_train: (docs, None), dims={"nO": 12})
MODELS = {
    "BiEncoder": lambda **changes: BiEncoder(SOURCE, **{**BIENCODER, **changes}),
    "DocumentEncoder": lambda **changes: DocumentEncoder(SOURCE, **{**DOCUMENTS, **changes}),
    "SharedEncoder": lambda **changes: SharedEncoder(LISTENER, SOURCE, **{**COSINES, **changes}),
}
MAKERS = {**MODELS, "CrossEncoder": lambda **changes: CrossEncoder(SOURCE, **changes)}
every_architecture = pytest.mark.parametrize(("name", "make"), MODELS.items())


def initialised(make: Callable[..., Model], **changes) -> Model:
    torch.manual_seed(0)
    return make(**changes).initialize(X=TEXTS)


def train_one_side(model: Model, side: str) -> None:
    inputs = text_inputs(model.attrs["entity_reader"].tokens(ENTITIES))
    output, backprop = model.get_ref(side).begin_update(inputs)
    backprop(np.random.default_rng(0).normal(size=output.shape).astype(np.float32))
    model.finish_update(Adam(0.01))


@pytest.mark.parametrize("shared", [True, False])
def test_two_towers_start_alike_and_share_nothing_unless_told(shared: bool) -> None:
    model = initialised(MODELS["BiEncoder"], shared=shared)
    mention, entity = (encoder_of(model.get_ref(s)).state_dict() for s in ("mention", "entity"))
    before = {k: v.clone() for k, v in mention.items()}
    assert all(torch.equal(v, before[k]) for k, v in entity.items())
    train_one_side(model, "entity")
    moved = {k: not torch.equal(v, before[k]) for k, v in entity.items()}
    assert any(moved.values())
    assert all(torch.equal(mention[k], v) != (shared and moved[k]) for k, v in before.items())


@every_architecture
def test_a_file_opens_with_the_same_fingerprints_and_vectors(name: str, make) -> None:
    model = initialised(make, n_numbers=8)
    architecture = model.attrs["architecture"]
    given = ["tok2vec", "encoder"] if name == "SharedEncoder" else ["encoder"]
    named = {"architecture": f"spacy-pel.{name}.v1", "given": given}
    assert saved_settings(model) == {**architecture.settings, **named}
    packed = pack_retriever(model)
    assert pack_retriever(unpack_retriever(packed)) == packed
    loaded = unpack_retriever(packed, LISTENER)
    assert loaded.attrs["architecture"].name == f"spacy-pel.{name}.v1" and loaded.get_dim("nO") == 8
    assert fingerprint(loaded) == fingerprint(model)
    assert entity_fingerprint(loaded) == entity_fingerprint(model)
    np.testing.assert_array_equal(entity_vectors(loaded, ENTITIES), entity_vectors(model, ENTITIES))
    if name == "SharedEncoder":
        assert loaded.get_ref("tok2vec") is LISTENER
    else:
        vectors = [retriever.predict(MENTIONS) for retriever in (model, loaded)]
        np.testing.assert_array_equal(*vectors)
    train_one_side(loaded, "entity")  # what was loaded can be trained on
    assert entity_fingerprint(loaded) != entity_fingerprint(model)
    with pytest.raises(PelError, match="not initialised again"):
        loaded.initialize(X=TEXTS)


NOUNS = 'choose "mean", "focus", "both" or "cls"'


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("BiEncoder", {"pooling": "max"}, f'unknown pooling "max"; {NOUNS}'),
        ("BiEncoder", {"mention_length": 7}, "mention_length is 7 tokens; set it to 8 or more"),
        ("DocumentEncoder", {"pooling": "focus"}, 'unknown pooling "focus"; choose "mean"$'),
        ("DocumentEncoder", {"entity_pooling": "end"}, f'unknown entity_pooling "end"; {NOUNS}'),
        ("DocumentEncoder", {"entity_length": 3}, "entity_length is 3 tokens; set it to 4 or"),
        ("BiEncoder", {"shared": True, "mention_layers": 2}, 'shared tower; set "shared" to false'),
        ("CrossEncoder", {"retriever_weight": 32, "sure": 1.5}, "give a probability above 0"),
        ("CrossEncoder", {"sure": 0.8}, "scores do not count; give retriever_weight as well"),
    ],
)
def test_wrong_settings(name: str, change: dict, message: str) -> None:
    with pytest.raises(PelError, match=message):
        MAKERS[name](**change)


def layers(tower) -> list[dict[str, torch.Tensor]]:
    return [layer.state_dict() for layer in encoder_of(tower).transformer.encoder.layer]


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("name", ["BiEncoder", "DocumentEncoder"])
@pytest.mark.parametrize(("n", "kept"), [(1, [0]), (4, [0, 1, 3, 4]), (None, [0, 1, 2, 3, 4])])
def test_layers_are_spread_evenly(name: str, n: int | None, kept: list[int]) -> None:
    model = initialised(MODELS[name], mention_layers=n)
    few, every = (layers(tower) for tower in model.layers)
    assert len(every) == N_LAYERS and not same(*every[:2])
    assert all(same(every[place], layer) for place, layer in zip(kept, few, strict=True))
    for tower, count in zip(model.layers, (len(kept), N_LAYERS)):
        assert encoder_of(tower).transformer.config.num_hidden_layers == count
    loaded = unpack_retriever(pack_retriever(model))
    assert len(layers(loaded.layers[0])) == len(kept)
