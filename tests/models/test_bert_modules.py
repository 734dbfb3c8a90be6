"""Our modules compute what Hugging Face's do, and a stored encoder needs nothing of Hugging Face."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

from spacy_pel.errors import PelError
from spacy_pel.models.bert import Bert, build_transformer, last_hidden_states
from spacy_pel.models.encoders import TextEncoder
from spacy_pel.models.packed_weights import pack
from spacy_pel.reading.word_pieces import train_tokenizer

SIZES = {
    "vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 24, "max_position_embeddings": 12, "pad_token_id": 0,
}  # fmt: skip
FIELDS = [
    *SIZES, "hidden_act", "hidden_dropout_prob", "type_vocab_size", "layer_norm_eps",
]  # fmt: skip


def both(**changes: object) -> tuple[BertModel, Bert]:
    """Hugging Face's BERT with random weights, and ours with the same ones."""
    torch.manual_seed(0)
    config = BertConfig(**{**SIZES, **changes})
    theirs = BertModel(config, add_pooling_layer=False).eval()
    stored = Bert({name: getattr(config, name) for name in FIELDS}).eval()
    stored.load_state_dict(theirs.state_dict(), assign=True)
    return theirs, stored


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"])
def test_states_are_those_of_hugging_face(activation: str) -> None:
    theirs, stored = both(hidden_act=activation)
    ids, segments = torch.randint(1, 30, (3, 9)), torch.randint(0, 2, (3, 9))
    mask = torch.arange(9) < torch.tensor([[9], [4], [7]])
    with torch.no_grad():
        expected = theirs(ids, mask, segments).last_hidden_state
        embedded = stored.embeddings(stored.get_input_embeddings()(ids), segments)
        states = last_hidden_states(stored.encoder.layer, embedded, mask)
    torch.testing.assert_close(states[mask], expected[mask], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("segments", [None, torch.ones(2, 5, dtype=torch.int64)])
def test_embeddings_are_theirs_to_the_last_bit(segments: torch.Tensor | None) -> None:
    theirs, stored = both()
    words = torch.randn(2, 5, 16)
    with torch.no_grad():
        ours = stored.embeddings(inputs_embeds=words, token_type_ids=segments)
        assert torch.equal(ours, theirs.embeddings(inputs_embeds=words, token_type_ids=segments))


def test_names_and_their_order_are_theirs() -> None:
    theirs, stored = both()
    assert list(stored.state_dict()) == list(theirs.state_dict())


def test_padding_learns_nothing_as_in_theirs() -> None:
    for bert in both():
        words = bert.get_input_embeddings()(torch.tensor([[0, 5]]))
        bert.embeddings(inputs_embeds=words, token_type_ids=None).square()[..., 0].sum().backward()
        learned = bert.get_input_embeddings().weight.grad.any(1)
        assert not learned[0] and learned[5]


def test_dropout_acts_where_theirs_does() -> None:
    states = torch.randn(1, 4, 16)
    for module in ("output", "attention.output"):
        given = []
        for bert in both(hidden_dropout_prob=0.5):
            torch.manual_seed(1)
            added = bert.train().encoder.layer[0].get_submodule(module)
            inner = torch.ones(1, 4, added.dense.in_features)
            given.append(added(inner, states))
        assert torch.equal(*given)


def test_an_activation_that_is_not_known_is_refused() -> None:
    with pytest.raises(PelError, match='the activation "mish"; choose one with gelu, gelu_new'):
        TextEncoder(pooling="mean", normalize=True, mixed_precision=False).load(
            build_transformer(**SIZES, hidden_act="mish"), None
        )


def test_a_missing_weight_is_an_error() -> None:
    theirs, stored = both()
    weights = theirs.state_dict()
    del weights["encoder.layer.1.output.dense.bias"]
    with pytest.raises(RuntimeError, match=r"encoder\.layer\.1\.output\.dense\.bias"):
        stored.load_state_dict(weights, assign=True)


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
    command = [sys.executable, "-c", RESTORE, str(tmp_path / "model")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
