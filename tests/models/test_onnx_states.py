import pytest
import torch

from spacy_pel.errors import PelError
from spacy_pel.models.bert import Bert, architecture, as_bert, last_hidden_states
from spacy_pel.models.onnx_states import OnnxStates

from .test_bert import both

VOCABULARY, LIMIT = 50, 24


def bert(layers: int = 2, width: int = 32, **changes) -> torch.nn.Module:
    sizes = {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": 4 * width}
    return both(vocab_size=VOCABULARY, max_position_embeddings=LIMIT, **sizes, **changes)[0]


def batch(*lengths: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """ids, mask, segments of rows of these lengths; what is padded is not zero."""
    rng = torch.Generator().manual_seed(seed)
    shape = len(lengths), max(lengths)
    ids = torch.randint(VOCABULARY, shape, generator=rng)
    segments = torch.randint(2, shape, generator=rng)
    return ids, torch.arange(shape[1]) < torch.tensor(lengths)[:, None], segments


def torch_states(transformer, ids, mask, segments) -> torch.Tensor:
    with torch.no_grad():
        return transformer(ids, mask.long(), segments).last_hidden_state


def cosines(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cosine_similarity(a, b, dim=-1)


@pytest.mark.parametrize("changes", [{}, {"layers": 1, "width": 48}, {"layer_norm_eps": 0.1}])
@pytest.mark.parametrize("lengths", [(1,), (3, LIMIT, 1, 7)])
def test_states_are_those_of_torch(changes: dict, lengths: tuple[int, ...]) -> None:
    """Of all tokens, and of some."""
    transformer, inputs = bert(**changes), batch(*lengths)
    onnx, mask, wanted = OnnxStates(as_bert(transformer), int8=False), inputs[1], inputs[2] > 0
    states, some = onnx(*inputs), onnx(*inputs, wanted & mask)
    expected = torch_states(transformer, *inputs)
    torch.testing.assert_close(states[mask], expected[mask], atol=1e-4, rtol=0)
    assert states.shape == expected.shape and states.dtype == torch.float32
    assert not states[~mask].any() and not some[~(wanted & mask)].any()
    torch.testing.assert_close(some[wanted & mask], states[wanted & mask], atol=1e-5, rtol=0)


def test_a_bert_with_fewer_heads_is_one_whose_other_heads_are_not_read() -> None:
    whole = as_bert(bert(width=32)).eval()  # 4 heads of 8
    few = Bert({**architecture(whole), "num_attention_heads": 3, "attention_size": 24}).eval()
    weights = dict(whole.state_dict())
    for name in weights:
        if name.endswith("attention.output.dense.weight"):
            weights[name][:, 24:] = 0
            weights[name] = weights[name][:, :24]
        elif ".attention.self." in name:
            weights[name] = weights[name][:24]
    few.load_state_dict(weights)
    ids, mask, _ = batch(7)
    with torch.no_grad():
        states = [
            last_hidden_states(b.encoder.layer, b.embeddings(ids, 0.0, None), mask)
            for b in (whole, few)
        ]
    torch.testing.assert_close(*states, atol=1e-6, rtol=0)
    found = OnnxStates(few, int8=False)(ids, mask)
    torch.testing.assert_close(found, states[0], atol=1e-5, rtol=0)
    assert "attention_size" not in architecture(whole)


def test_a_layer_reads_states() -> None:
    layer = as_bert(bert()).eval().encoder.layer[0]
    states, wanted = torch.randn(1, LIMIT, 32), torch.zeros(1, LIMIT, dtype=torch.bool)
    wanted[0, [0, 5, 6]] = True
    places = wanted[0].nonzero()[:, 0].numpy()
    found = OnnxStates(layer, int8=False).of_one(states[0].numpy(), places)
    with torch.no_grad():
        expected = last_hidden_states([layer], states, torch.ones_like(wanted), wanted)[wanted]
    torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-5, rtol=0)


def test_8_bits_are_near_to_float32() -> None:
    """Also where weights are all zero."""
    transformer = bert(width=64)
    with torch.no_grad():
        transformer.encoder.layer[0].output.dense.weight.zero_()
        transformer.encoder.layer[1].intermediate.dense.weight[:3].zero_()
    inputs = batch(LIMIT, 7, 15)
    states = OnnxStates(as_bert(transformer), int8=True)(*inputs)[inputs[1]]
    expected = torch_states(transformer, *inputs)[inputs[1]]
    near = cosines(states, expected)
    assert near.mean() > 0.99 and near.min() > 0.97
    wanted = inputs[1] & (inputs[2] > 0)  # in steps for those alone
    some = OnnxStates(as_bert(transformer), int8=True)(*inputs, wanted)
    assert cosines(some[wanted], states[wanted[inputs[1]]]).min() > 0.97
    assert (states - expected).abs().max() > 1e-3  # it is not float32


@pytest.mark.parametrize("int8", [False, True])
def test_a_row_is_the_same_in_any_batch(int8: bool) -> None:
    onnx = OnnxStates(as_bert(bert()), int8=int8)
    lengths = [3, LIMIT, 9, 3]
    ids, mask, segments = batch(*lengths)
    together = onnx(ids, mask, segments)
    for row, length in enumerate(lengths):
        one = slice(row, row + 1)
        alone = onnx(ids[one, :length], mask[one, :length], segments[one, :length])
        assert torch.equal(together[one, :length], alone)


def test_a_bert_that_it_does_not_compute_is_refused() -> None:
    with pytest.raises(PelError, match='"relu"; set runtime = "torch"'):
        OnnxStates(as_bert(bert(hidden_act="relu")), int8=False)
    with pytest.raises(PelError, match='needs a CPU .* not "meta"'):
        OnnxStates(as_bert(bert()).to("meta"), int8=False)
