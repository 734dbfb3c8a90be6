import numpy as np
import pytest
import torch
from thinc.api import Model
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from spacy_pel.errors import PelError
from spacy_pel.models.architectures import (
    Retriever,
    ScratchEncoder,
    SharedEncoder,
    encoder_of,
    is_initialized,
    pack_retriever,
    set_dropout,
    towers,
    unpack_retriever,
)
from spacy_pel.text.mention_inputs import DocumentContext, MentionInContext

from ...towers import TEXTS

WIDTH = 12
SOURCE = ScratchEncoder(1, 32, 4, 200, 48)


def tok2vec(width: int | None = WIDTH) -> Model:
    return Model("listener", lambda model, docs, is_train: (docs, None), dims={"nO": width})


def shared(width: int = WIDTH, **changes) -> Retriever:
    torch.manual_seed(0)
    model = SharedEncoder(tok2vec(width), SOURCE, **changes)
    assert not is_initialized(model)
    model.initialize(X=TEXTS)
    set_dropout(model, 0.0)
    return model


def mentions(width: int = WIDTH) -> list[MentionInContext]:
    """Three mentions of two texts, of which the second comes first and last."""
    random = np.random.default_rng(0)
    documents = []
    for text in TEXTS[:2]:
        ends = np.array([i for i, letter in enumerate(text) if letter == " "])
        offsets = np.stack([np.concatenate([[0], ends[:-1] + 1]), ends], axis=1)
        states = random.normal(size=(len(offsets), width)).astype(np.float32)
        documents.append((text, DocumentContext(states, offsets, np.zeros_like(states))))
    (one, document), (other, other_document) = documents
    return [
        MentionInContext(other, 0, 17, other_document),
        MentionInContext(one, 9, 18, document),
        MentionInContext(other, 5, 17, other_document),
    ]


def naive(linker: Retriever, mention: MentionInContext, states: torch.Tensor, limit: int):
    """One mention's vector by torch alone."""
    offsets = mention.document.offsets
    own = encoder_of(linker.get_ref("mention"))
    if own.layer is not None:
        sizes = {"hidden_size": WIDTH, "num_attention_heads": 3, "intermediate_size": 48}
        layer = BertLayer(BertConfig(**sizes)).eval()
        layer.load_state_dict(own.layer.state_dict())
        parts = states.tensor_split(-(-len(states) // limit))
        states = torch.cat([layer(part[None])[0].reshape(part.shape) for part in parts])
    inside = [i for i, (a, b) in enumerate(offsets) if a < mention.end > mention.start < b]
    pooled = states[inside].mean(0)
    return torch.nn.functional.normalize(own.map.weight @ pooled + own.map.bias, dim=-1)


LAYER = ScratchEncoder(2, WIDTH, 3, 200, 48)


@pytest.mark.parametrize(("layer", "limit"), [(None, 512), (LAYER, 512), (LAYER, 3)])
def test_vectors_and_gradients(layer, limit: int, monkeypatch) -> None:
    monkeypatch.setattr(towers, "MAX_CONTEXT", limit)
    linker, given = shared(layer=layer), mentions()
    weight = torch.randn(3, 32)
    states = {m.document: torch.tensor(m.document.states, requires_grad=True) for m in given}
    expected = torch.stack([naive(linker, m, states[m.document], limit) for m in given])
    np.testing.assert_allclose(linker.predict(given), expected.detach().numpy(), atol=1e-6)
    map = encoder_of(linker.get_ref("mention")).map
    (expected * weight).sum().backward()
    d_map, map.weight.grad = map.weight.grad, None

    vectors, backprop = linker.begin_update(given)
    np.testing.assert_allclose(vectors, expected.detach().numpy(), atol=1e-6)
    assert backprop(weight.numpy()) == []
    torch.testing.assert_close(map.weight.grad, d_map)
    for mention in given:
        gradient = mention.document.gradient
        expected_gradient = states[mention.document].grad.numpy()
        np.testing.assert_allclose(gradient, expected_gradient, atol=1e-6)


def test_where_both_sides_are_as_wide_it_begins_with_the_states() -> None:
    linker, given = shared(32), mentions(32)
    found = linker.predict(given)[1]
    assert linker.predict([]).shape == (0, 32)
    read = linker.attrs["mention_reader"].inputs(given)[1]
    states = read.document.states[slice(*read.spans[0])].mean(0)
    np.testing.assert_allclose(found, states / np.linalg.norm(states), atol=1e-6)


def test_a_layer_is_saved_and_reads_states_of_its_own_width() -> None:
    linker, given = shared(layer=ScratchEncoder(1, WIDTH, 3, 200, 48)), mentions()
    loaded = unpack_retriever(pack_retriever(linker), tok2vec())
    np.testing.assert_array_equal(loaded.predict(given), linker.predict(given))
    with pytest.raises(PelError, match="use a layer of the BERT that computes the states"):
        shared(layer=ScratchEncoder(1, 16, 4, 200, 48))


@pytest.mark.parametrize("listener", [None, tok2vec(None)])
def test_nobody_to_listen_to(listener) -> None:
    model = SharedEncoder(listener, SOURCE)
    with pytest.raises(PelError, match='add a "transformer" or "tok2vec" to the pipeline'):
        model.initialize(X=TEXTS)
