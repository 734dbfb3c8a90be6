"""Our modules compute what Hugging Face's do, and a trained linker needs nothing of Hugging Face."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from spacy_pel.architectures.saved_retriever import pack_retriever
from spacy_pel.errors import PelError
from spacy_pel.models.bert import build_transformer
from spacy_pel.models.text_encoder import TextEncoder

from ..towers import biencoder

SIZES = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
IDS = torch.tensor([[2, 9, 11, 3], [2, 17, 3, 0]])
SEGMENTS = torch.tensor([[0, 1, 1, 0], [0, 0, 1, 0]])
LOAD = """
import sys
from pathlib import Path

sys.modules["transformers"] = None  # an import of it is an error
from spacy_pel.architectures.saved_retriever import unpack_retriever

unpack_retriever(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"])
def test_states_equal_those_of_hugging_face(activation: str) -> None:
    torch.manual_seed(0)
    theirs = build_transformer(**SIZES, hidden_act=activation).eval()
    ours = TextEncoder(pooling="mean", normalize=True, mixed_precision=False)
    ours.load(theirs, None)
    mask = IDS != 0
    with torch.no_grad():
        expected = theirs(IDS, mask.long(), SEGMENTS).last_hidden_state
        states = ours.eval().hidden_states(IDS, mask, torch.zeros(1, 1, 1), SEGMENTS)
    torch.testing.assert_close(states[mask], expected[mask], atol=1e-6, rtol=1e-5)
    assert ours.weights().keys() == theirs.state_dict().keys()


def test_an_activation_that_is_not_known_is_refused() -> None:
    with pytest.raises(PelError, match='the activation "mish"; choose one with gelu, gelu_new'):
        TextEncoder(pooling="mean", normalize=True, mixed_precision=False).load(
            build_transformer(**SIZES, hidden_act="mish"), None
        )


def test_a_trained_retriever_is_opened_without_transformers(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(pack_retriever(biencoder()))
    command = [sys.executable, "-c", LOAD, tmp_path / "model"]
    subprocess.run(command, check=True, capture_output=True)
