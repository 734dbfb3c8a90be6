from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.models.bert import build_transformer, last_hidden_states

from ..towers import spread_weights

WIDTH, LENGTH = 16, 7


def bert(layers: int, **changes) -> torch.nn.Module:
    torch.manual_seed(0)
    config = {
        "vocab_size": 30,
        "hidden_size": WIDTH,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 24,
        "max_position_embeddings": LENGTH,
    }
    transformer = build_transformer(**{**config, **changes}).eval()
    spread_weights(transformer)
    return transformer


BERTS = {layers: bert(layers) for layers in (1, 3)}


def states(transformer, ids, mask, wanted=None) -> torch.Tensor:
    return last_hidden_states(transformer.encoder.layer, transformer.embeddings(ids), mask, wanted)


def hugging_face(transformer, ids, mask) -> torch.Tensor:
    return transformer(ids, attention_mask=mask.long()).last_hidden_state


@given(
    st.sampled_from(sorted(BERTS)),
    st.lists(
        st.tuples(st.integers(1, LENGTH), st.sets(st.integers(0, LENGTH - 1))),
        min_size=1,
        max_size=4,
    ),
)
@settings(max_examples=60, deadline=None)
def test_states_are_those_of_hugging_face(layers: int, rows: list[tuple[int, set[int]]]) -> None:
    transformer = BERTS[layers]
    ids = torch.arange(len(rows) * LENGTH).reshape(len(rows), LENGTH) * 7 % 30
    mask = torch.arange(LENGTH) < torch.tensor([length for length, _ in rows])[:, None]
    wanted = torch.zeros_like(mask)
    for row, (length, columns) in enumerate(rows):
        wanted[row, [column for column in columns if column < length]] = True
    with torch.no_grad():
        expected = hugging_face(transformer, ids, mask)
        whole = states(transformer, ids, mask)
        some = states(transformer, ids, mask, wanted)
    torch.testing.assert_close(whole[mask], expected[mask], atol=1e-5, rtol=0)
    torch.testing.assert_close(some[wanted], expected[wanted], atol=1e-5, rtol=0)
    assert some.shape == expected.shape and not some[~wanted].any()


@pytest.mark.parametrize("layers", [1, 3])
def test_gradients_are_those_of_hugging_face(layers: int) -> None:
    """Of all weights, from a loss of the wanted states alone."""
    ids = torch.arange(2 * LENGTH).reshape(2, LENGTH)
    mask = torch.arange(LENGTH) < torch.tensor([LENGTH, 4])[:, None]
    wanted = torch.zeros_like(mask)
    wanted[0, [1, 5]] = wanted[1, 3] = True
    target = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))
    gradients = []
    for found in (states(BERTS[layers], ids, mask, wanted), hugging_face(BERTS[layers], ids, mask)):
        BERTS[layers].zero_grad()
        (found[wanted] * target).sum().backward()
        gradients.append({k: w.grad for k, w in BERTS[layers].named_parameters()})
    for name, gradient in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], gradient, atol=1e-4, rtol=1e-4)
    assert any(gradient.abs().max() > 0.1 for gradient in gradients[0].values())


def test_attention_itself_has_no_dropout() -> None:
    """Whatever its configuration says: torch's fast attention on a CPU has none."""
    sizes = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.5}
    transformer = bert(2, **sizes)
    ids, mask = torch.arange(LENGTH)[None], torch.ones(1, LENGTH, dtype=torch.bool)
    still = states(transformer, ids, mask)
    assert torch.equal(states(transformer.train(), ids, mask), still)


@pytest.mark.parametrize("length", [16, 17, 23, 30, 31])
@pytest.mark.parametrize("n_wanted", [None, 1, 2, 3, 5])
def test_the_number_of_threads_does_not_matter(length: int, n_wanted: int | None) -> None:
    """To the last bit: so vectors are the same in a worker of ``n_process`` as in one process."""
    transformer = bert(2, max_position_embeddings=31, hidden_size=32, intermediate_size=128)
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
