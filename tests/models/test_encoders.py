import numpy as np
import pytest
import torch

from spacy_pel.errors import PelError
from spacy_pel.models.architectures import encoder_of
from spacy_pel.models.bert import has_fast_bfloat16
from spacy_pel.models.encoders import Tagger, TextEncoder
from spacy_pel.text.token_inputs import TokenIds, text_inputs

from ..towers import bert_states, biencoder

TOKENS = [
    TokenIds(np.array([2, 9, 11, 30, 3], dtype=np.int32), 1, 3),
    TokenIds(np.array([2, 17, 3], dtype=np.int32), 1, 2),
    TokenIds(np.array([2, 3], dtype=np.int32), 1, 1),
]
NO_PERTURBATION = torch.zeros(1, 1, 1)


def encoder(**changes) -> TextEncoder:
    return encoder_of(biencoder(**changes).get_ref("entity")).eval()


def batch(tokens: list[TokenIds]) -> list[torch.Tensor]:
    padded = text_inputs(tokens).padded(np.arange(len(tokens)), 0, 0)
    return [torch.as_tensor(array) for array in padded.values()]


@pytest.mark.parametrize("pooling", ["mean", "focus", "both", "cls"])
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
                "cls": states[0],
            }[pooling]
            if similarity == "cosine":
                expected = expected / expected.norm()
            torch.testing.assert_close(vector, expected, atol=1e-5, rtol=1e-5)


def test_short_vectors_are_the_first_numbers_of_whole_ones() -> None:
    whole = encoder(pooling="focus", similarity="dot")
    short = encoder(pooling="focus", n_numbers=8)
    with torch.no_grad():
        expected = whole(*batch(TOKENS), NO_PERTURBATION)[:, :8]
        vectors = short(*batch(TOKENS), NO_PERTURBATION)
    expected = expected / expected.norm(dim=1, keepdim=True)
    assert short.n_outputs == 8 and vectors.shape == (3, 8)
    torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=1e-5)
    with pytest.raises(PelError, match="vectors of 33 numbers of an encoder that has 32"):
        biencoder(n_numbers=33)


@pytest.mark.parametrize("instructions, differs", [({"avx512_bf16": True}, True), ({}, False)])
def test_bfloat16_needs_a_processor_that_has_it(monkeypatch, instructions, differs) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    has_fast_bfloat16.cache_clear()
    with torch.no_grad():
        a = encoder()(*batch(TOKENS), NO_PERTURBATION)
        b = encoder(mixed_precision=True)(*batch(TOKENS), NO_PERTURBATION)
    has_fast_bfloat16.cache_clear()
    assert torch.equal(a, b) != differs


def test_a_whole_word_has_the_mean_embedding_of_its_word_pieces() -> None:
    source = encoder_of(biencoder().get_ref("entity"))
    tagger = Tagger(n_tags=3, n_features=4, mixed_precision=False)
    tagger.load(source.transformer, source.tokenizer)
    tagger.eval()
    ids = torch.tensor([[2, 9, 11, 3], [2, 17, 3, 0]])
    others = torch.zeros(2, 4, 2, dtype=torch.int64)
    others[0, 1] = torch.tensor([30, 12])
    others[1, 1, 0] = 14
    firsts = torch.tensor([[False, True, True, False], [False, True, False, False]])
    features = torch.rand(2, 4, 4)
    words = {"ids": ids, "mask": ids > 0, "firsts": firsts, "features": features}
    pieces = tagger.transformer.embeddings.word_embeddings.weight
    added = torch.zeros(2, 4, tagger.width)
    for row, column in ((0, 1), (1, 1)):
        own = [ids[row, column], *(id for id in others[row, column] if id)]
        added[row, column] = sum(pieces[id] for id in own) / len(own) - pieces[own[0]]
    with torch.no_grad():
        expected = tagger(**words, perturbation=added)
        found = tagger(**words, perturbation=NO_PERTURBATION, others=others)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(found, tagger(**words, perturbation=NO_PERTURBATION), atol=1e-3)
