"""Our BERT computes what Hugging Face's does, for the tokens that are wanted, and needs nothing of it."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertModel

from spacy_pel.errors import PelError
from spacy_pel.models.bert import (
    Bert,
    architecture,
    as_bert,
    build_transformer,
    last_hidden_states,
)
from spacy_pel.models.encoders import TextEncoder
from spacy_pel.models.packed_weights import pack
from spacy_pel.text.token_inputs import train_tokenizer

from ..conftest import run_python
from ..towers import spread_weights

WIDTH, LENGTH = 16, 7
SIZES = {
    "vocab_size": 30, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 24, "max_position_embeddings": 12, "pad_token_id": 0,
}  # fmt: skip


def both(**changes: object) -> tuple[BertModel, Bert]:
    """Hugging Face's BERT with random weights, and ours with the same ones."""
    torch.manual_seed(0)
    theirs = BertModel(BertConfig(**{**SIZES, **changes}), add_pooling_layer=False).eval()
    spread_weights(theirs)
    ours = Bert(architecture(theirs)).eval()
    ours.load_state_dict(theirs.state_dict(), assign=True)
    return theirs, ours


def states(transformer, ids, mask, wanted=None, segments=None) -> torch.Tensor:
    embedded = transformer.embeddings(ids, 0.0, segments)
    return last_hidden_states(transformer.encoder.layer, embedded, mask, wanted)


def test_dropout_acts_where_theirs_does() -> None:
    states = torch.randn(1, 4, 16)
    for module in ("output", "attention.output"):
        given = []
        for bert in both(hidden_dropout_prob=0.5):  # but not in attention itself
            torch.manual_seed(1)
            added = bert.train().encoder.layer[0].get_submodule(module)
            inner = torch.ones(1, 4, added.dense.in_features)
            given.append(added(inner, states))
        assert torch.equal(*given)


def test_an_activation_that_is_not_known_is_refused() -> None:
    for change, message in (
        ({"hidden_act": "mish"}, 'the activation "mish"; choose one with gelu, gelu_new'),
        ({"position_embedding_type": "relative_key"}, '"relative_key"; choose one with "absol'),
    ):
        with pytest.raises(PelError, match=message):
            as_bert(build_transformer(**SIZES, **change))


ACTIVATIONS = [(1, "gelu"), (3, "gelu_new"), (1, "gelu_pytorch_tanh"), (1, "relu"), (1, "silu")]
BERTS = [both(num_hidden_layers=layers, hidden_act=name) for layers, name in ACTIVATIONS]


ROW = st.tuples(st.integers(1, LENGTH), st.sets(st.integers(0, LENGTH - 1)))


@given(st.sampled_from(BERTS), st.lists(ROW, min_size=1, max_size=4))
def test_states_are_those_of_hugging_face(berts, rows: list[tuple[int, set[int]]]) -> None:
    theirs, ours = berts
    ids = torch.arange(len(rows) * LENGTH).reshape(len(rows), LENGTH) * 7 % 30
    mask = torch.arange(LENGTH) < torch.tensor([length for length, _ in rows])[:, None]
    wanted = torch.zeros_like(mask)
    for row, (length, columns) in enumerate(rows):
        wanted[row, [column for column in columns if column < length]] = True
    with torch.no_grad():
        expected = theirs(ids, mask.long(), ids % 2).last_hidden_state
        whole = states(ours, ids, mask, segments=ids % 2)
        some = states(ours, ids, mask, wanted, ids % 2)
    torch.testing.assert_close(whole[mask], expected[mask], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(some[wanted], expected[wanted], atol=1e-5, rtol=1e-5)
    assert some.shape == expected.shape and not some[~wanted].any()


@pytest.mark.parametrize("berts", BERTS[:2])
def test_gradients_are_those_of_hugging_face(berts: tuple[BertModel, Bert]) -> None:
    """Of all weights, from a loss of the wanted states alone."""
    ids = torch.arange(2 * LENGTH).reshape(2, LENGTH)
    mask = torch.arange(LENGTH) < torch.tensor([LENGTH, 4])[:, None]
    wanted = torch.zeros_like(mask)
    wanted[0, [1, 5]] = wanted[1, 3] = True
    target = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))
    theirs, ours = berts
    expected = theirs(ids, attention_mask=mask.long()).last_hidden_state
    gradients = []
    for bert, found in ((ours, states(ours, ids, mask, wanted)), (theirs, expected)):
        bert.zero_grad()
        (found[wanted] * target).sum().backward()
        gradients.append({k: w.grad.clone() for k, w in bert.named_parameters()})
    for name, gradient in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], gradient, atol=1e-4, rtol=1e-4)
    assert any(gradient.abs().max() > 0.1 for gradient in gradients[0].values())


@pytest.mark.parametrize("length", [16, 23, 31])
@pytest.mark.parametrize("n_wanted", [None, 1, 2, 5])
def test_the_number_of_threads_does_not_matter(length: int, n_wanted: int | None) -> None:
    """To the last bit: so vectors are the same in a worker of ``n_process`` as in one process."""
    sizes = {"max_position_embeddings": 31, "hidden_size": 32, "intermediate_size": 128}
    transformer = both(**sizes)[1]
    ids, mask = torch.arange(length)[None] % 30, torch.ones(1, length, dtype=torch.bool)
    wanted = None if n_wanted is None else torch.arange(length)[None] < n_wanted
    threads, found = torch.get_num_threads(), []
    try:
        for n in (1, 2, 4):
            torch.set_num_threads(n)
            with torch.no_grad():
                found.append(states(transformer, ids, mask, wanted))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


RESTORE = """
import sys
from pathlib import Path
import torch
from spacy_pel.models.packed_weights import unpack
from spacy_pel.models.encoders import TextEncoder
encoder = TextEncoder(pooling="mean", normalize=True, mixed_precision=False)
unpack(Path(sys.argv[1])).fill([encoder], torch.device("cpu"))
print([name for name in ("transformers", "torch._dynamo", "sympy") if name in sys.modules])
"""


def test_a_stored_encoder_needs_no_transformers_and_no_compiler(tmp_path: Path) -> None:
    encoder = TextEncoder(pooling="mean", normalize=True, mixed_precision=False)
    tokenizer = train_tokenizer(["a text"], 30)
    encoder.load(build_transformer(**{**SIZES, "vocab_size": 40}), tokenizer)
    (tmp_path / "model").write_bytes(pack([encoder], {}))
    assert run_python(RESTORE, tmp_path / "model") == "[]\n"
