from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers.models.bert.modeling_bert import BertModel

from spacy_pel.architectures import encoder_of
from spacy_pel.errors import PelError
from spacy_pel.models.bert import build_transformer, has_fast_bfloat16
from spacy_pel.models.encoders import TextEncoder, mean_over
from spacy_pel.reading.text_inputs import TokenIds, pad_texts

from ..towers import bert_states, biencoder, hugging_face

TOKENS = [
    TokenIds(np.array([2, 9, 11, 30, 3], dtype=np.int32), 1, 3),
    TokenIds(np.array([2, 17, 3], dtype=np.int32), 1, 2),
    TokenIds(np.array([2, 3], dtype=np.int32), 1, 1),
]
NO_PERTURBATION = torch.zeros(1, 1, 1)


def encoder(**changes) -> TextEncoder:
    return encoder_of(biencoder(**changes).get_ref("entity")).eval()


def batch(tokens: list[TokenIds]) -> list[torch.Tensor]:
    return [torch.as_tensor(array) for array in pad_texts(tokens, 0)]


@pytest.mark.parametrize("pooling", ["mean", "focus", "both"])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_vectors_equal_a_naive_computation(pooling: str, similarity: str) -> None:
    encode = encoder(pooling=pooling, similarity=similarity)
    with torch.no_grad():
        vectors = encode(*batch(TOKENS), NO_PERTURBATION)
        for vector, tokens in zip(vectors, TOKENS, strict=True):
            states = bert_states(encode, tokens)
            whole = range(len(tokens.ids))
            focus = range(tokens.start, tokens.end) or whole
            means = [sum(states[i] for i in places) / len(places) for places in (whole, focus)]
            expected = {
                "mean": means[0],
                "focus": means[1],
                "both": means[0] / means[0].norm() + means[1] / means[1].norm(),
            }[pooling]
            if similarity == "cosine":
                expected = expected / expected.norm()
            torch.testing.assert_close(vector, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_short_vectors_are_the_first_numbers_of_whole_ones(similarity: str) -> None:
    whole = encoder(pooling="focus", similarity="dot")
    short = encoder(pooling="focus", similarity=similarity, n_numbers=8)
    with torch.no_grad():
        expected = whole(*batch(TOKENS), NO_PERTURBATION)[:, :8]
        vectors = short(*batch(TOKENS), NO_PERTURBATION)
    if similarity == "cosine":
        expected = expected / expected.norm(dim=1, keepdim=True)
    assert short.n_outputs == 8 and vectors.shape == (3, 8)
    torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=1e-5)


def test_more_numbers_than_the_states_have_are_refused() -> None:
    with pytest.raises(PelError, match="vectors of 33 numbers of an encoder that has 32"):
        biencoder(n_numbers=33)


def test_a_perturbation_is_added_to_word_position_and_segment() -> None:
    encode = encoder()
    rng = torch.Generator().manual_seed(0)
    tokens = TOKENS[:1]
    perturbation = torch.randn(1, 5, 32, generator=rng)
    embeddings = encode.transformer.embeddings
    ids = torch.as_tensor(tokens[0].ids, dtype=torch.int64)[None]
    with torch.no_grad():
        composite = (
            embeddings.word_embeddings(ids)
            + embeddings.position_embeddings(torch.arange(5))
            + embeddings.token_type_embeddings(torch.zeros(1, 5, dtype=torch.int64))
        )
        layers = hugging_face(encode.transformer).encoder
        states = layers(embeddings.LayerNorm(composite + perturbation))[0]
        expected = torch.nn.functional.normalize(states[0].mean(0), dim=0)
        perturbed = encode(*batch(tokens), perturbation)[0]
        clean = encode(*batch(tokens), NO_PERTURBATION)[0]
        zero = encode(*batch(tokens), torch.zeros(1, 5, 32))[0]
    torch.testing.assert_close(perturbed, expected, atol=1e-5, rtol=1e-5)
    assert (perturbed - clean).norm() > 0.1
    assert torch.equal(zero, clean)


def test_padding_changes_nothing() -> None:
    encode = encoder()
    with torch.no_grad():
        together = encode(*batch(TOKENS), NO_PERTURBATION)
        alone = torch.cat([encode(*batch([t]), NO_PERTURBATION) for t in TOKENS])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_mean_over() -> None:
    hidden = torch.arange(12.0).reshape(2, 3, 2)
    mask = torch.tensor([[True, False, True], [False, True, False]])
    assert mean_over(hidden, mask).tolist() == [[2, 3], [8, 9]]


def test_dropout_acts_in_training_alone() -> None:
    encode = encoder()
    encode.set_dropout(0.5)
    with torch.no_grad():
        still = [encode(*batch(TOKENS), NO_PERTURBATION) for _ in range(2)]
        encode.train()
        moving = [encode(*batch(TOKENS), NO_PERTURBATION) for _ in range(2)]
        encode.set_dropout(0.0)
        off = encode(*batch(TOKENS), NO_PERTURBATION)
    assert torch.equal(*still)
    assert not torch.allclose(*moving, atol=1e-3)
    torch.testing.assert_close(off, still[0])


def test_position_embeddings_of_another_kind_are_refused() -> None:
    config = vars(encoder().transformer.config)
    relative = build_transformer(**{**config, "position_embedding_type": "relative_key"})
    encode = TextEncoder(pooling="mean", normalize=True, mixed_precision=False)
    with pytest.raises(PelError, match='"relative_key"; choose one with "absolute"'):
        encode.load(relative, encoder().tokenizer)


def test_a_pooler_is_left_behind() -> None:
    config = build_transformer(
        vocab_size=10, hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=8,
    ).config  # fmt: skip
    with_pooler = BertModel(config)
    assert with_pooler.pooler is not None
    encode = TextEncoder(pooling="mean", normalize=True, mixed_precision=False)
    encode.load(with_pooler, encoder().tokenizer)
    assert not any("pooler" in name for name in encode.state_dict())


def test_bfloat16_is_close_to_float32(monkeypatch) -> None:
    monkeypatch.setattr("spacy_pel.models.encoders.has_fast_bfloat16", lambda device: True)
    exact, quick = encoder(), encoder(mixed_precision=True)
    with torch.no_grad():
        a = exact(*batch(TOKENS), NO_PERTURBATION)
        b = quick(*batch(TOKENS), NO_PERTURBATION)
    assert b.dtype == torch.float32
    assert not torch.equal(a, b)
    torch.testing.assert_close(a, b, atol=2e-2, rtol=0)


@pytest.mark.parametrize("instructions, differs", [({"avx512_bf16": True}, True), ({}, False)])
def test_bfloat16_needs_a_processor_that_has_it(monkeypatch, instructions, differs) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    has_fast_bfloat16.cache_clear()
    with torch.no_grad():
        a = encoder()(*batch(TOKENS), NO_PERTURBATION)
        b = encoder(mixed_precision=True)(*batch(TOKENS), NO_PERTURBATION)
    has_fast_bfloat16.cache_clear()
    assert torch.equal(a, b) != differs
