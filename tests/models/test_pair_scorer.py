from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from spacy_pel.architectures import encoder_of
from spacy_pel.models.bert import build_transformer
from spacy_pel.models.encoders import PairScorer
from spacy_pel.models.packed_weights import pack, unpack
from spacy_pel.reading.text_inputs import TokenIds, pad_texts

from ..towers import TEXTS, bert_states, pair_score, reranker

PAIRS = [
    TokenIds(np.array([2, 9, 11, 30, 3, 17, 3, 21, 3], dtype=np.int32), 5, 9),
    TokenIds(np.array([2, 17, 3, 12, 3], dtype=np.int32), 3, 5),
]
NO_PERTURBATION = torch.zeros(1, 1, 1)


def scorer() -> PairScorer:
    return encoder_of(reranker(layers=2).model.layers[0]).eval()


def scored(encoder: PairScorer, pairs, perturbation=NO_PERTURBATION) -> torch.Tensor:
    batch = [torch.as_tensor(array) for array in pad_texts(pairs, 0)]
    return encoder(*batch, perturbation)


def test_scores_are_those_of_plain_bert() -> None:
    encoder = scorer()
    scores = scored(encoder, PAIRS)
    assert scores.shape == (2, 1)
    expected = torch.stack([pair_score(encoder, pair) for pair in PAIRS])
    torch.testing.assert_close(scores[:, 0], expected, atol=1e-5, rtol=1e-4)


def test_the_entitys_side_is_the_second_segment() -> None:
    encoder = scorer()
    unmarked = [bert_states(encoder, pair).mean(0) @ encoder.score.weight[0] for pair in PAIRS]
    assert (scored(encoder, PAIRS)[:, 0] - torch.stack(unmarked)).abs().min() > 1e-3


def test_a_transformer_of_one_segment_has_no_second() -> None:
    encoder = PairScorer(mixed_precision=False)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    encoder.load(build_transformer(vocab_size=40, type_vocab_size=1, **sizes), None)
    encoder.eval()
    expected = [bert_states(encoder, pair).mean(0) @ encoder.score.weight[0] for pair in PAIRS]
    torch.testing.assert_close(
        scored(encoder, PAIRS)[:, 0], torch.stack(expected), atol=1e-5, rtol=1e-4
    )


def test_a_perturbation_is_added_to_the_composite_embeddings() -> None:
    encoder = scorer()
    added = torch.randn(2, 9, 32)
    added[1, 5:] = 0
    scores = scored(encoder, PAIRS, added)
    expected = [pair_score(encoder, p, a[: len(p.ids)]) for p, a in zip(PAIRS, added)]
    torch.testing.assert_close(scores[:, 0], torch.stack(expected), atol=1e-5, rtol=1e-4)


def test_bytes_keep_all_weights_and_are_no_pickle() -> None:
    encoder = scorer()
    fresh = PairScorer(mixed_precision=False)
    unpack(pack([encoder], {})).fill([fresh], torch.device("cpu"))
    fresh.eval()
    assert torch.equal(scored(fresh, PAIRS), scored(encoder, PAIRS))
    assert fresh.tokenizer.encode(TEXTS[0]).ids == encoder.tokenizer.encode(TEXTS[0]).ids
    assert fresh.state_dict().keys() == encoder.state_dict().keys()


def test_bytes_of_another_module_are_refused() -> None:
    encoder = scorer()
    encoder.score = nn.Linear(32, 2)
    contents = unpack(pack([encoder], {}))
    with pytest.raises(RuntimeError, match="score"):
        contents.fill([PairScorer(mixed_precision=False)], torch.device("cpu"))
