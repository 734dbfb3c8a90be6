import copy

import numpy as np
import pytest
import torch
from torch import Tensor

from spacy_pel.models.architectures import (
    DocumentEncoder,
    Retriever,
    ScratchEncoder,
    encoder_of,
    set_dropout,
)
from spacy_pel.text.mention_inputs import MentionInContext
from spacy_pel.text.token_inputs import TokenIds

from ...towers import TEXTS, bert_states, mention, spread_weights
from ...training.kbs import assert_same_gradients

LONG = " ".join(TEXTS)
MENTIONS = [
    mention(LONG, "Multiple sclerosis"),
    mention(TEXTS[0], "MS"),
    mention(LONG, "disease of the nerves"),
    mention(LONG, "disease"),
    mention(LONG, "murmur"),
    mention(TEXTS[3], "Aspirin reduces fever and pain, and thins the blood"),
    mention(TEXTS[0], "Multiple sclerosis"),
    mention(LONG, "thins"),
    MentionInContext(LONG, 8, 8),
]


def retriever(**changes) -> Retriever:
    """An initialised retriever without dropout; towers that are not shared differ."""
    torch.manual_seed(0)
    source = ScratchEncoder(2, 32, 4, vocab_size=200, max_tokens=48)
    model = DocumentEncoder(source, window=16, entity_length=24, **changes)
    model.initialize(X=TEXTS)
    set_dropout(model, 0.0)
    for tower in model.layers:
        spread_weights(encoder_of(tower))
    return model


def naive_vectors(linker: Retriever, scale: bool = True) -> list[Tensor]:
    """The vectors of MENTIONS, one window and one mention at a time."""
    encoder = encoder_of(linker.get_ref("mention")).eval()
    vectors: list[Tensor] = [None] * len(MENTIONS)
    for window in linker.attrs["mention_reader"].inputs(MENTIONS).windows:
        segments = torch.tensor(window.known["focus"][None]).long()
        for i, (first, last) in zip(window.outputs.tolist(), window.spans.tolist()):
            states = bert_states(encoder, TokenIds(window.ids, first, last), segments=segments)
            vector = sum(states[first:last]) / (last - first)
            vectors[i] = vector / vector.norm() if scale else vector
    return vectors


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_vectors_of_mentions_are_pooled_from_their_own_tokens(similarity: str) -> None:
    linker = retriever(similarity=similarity)
    assert len(linker.attrs["mention_reader"].inputs(MENTIONS).windows) > 4
    vectors = linker.predict(MENTIONS)
    with torch.no_grad():
        expected = torch.stack(naive_vectors(linker, similarity == "cosine"))
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert linker.predict([]).shape == (0, 32)


def test_gradients_equal_pure_torch() -> None:
    ours = retriever()
    reference = copy.deepcopy(ours)
    d_vectors = np.random.default_rng(0).normal(size=(len(MENTIONS), 32)).astype(np.float32)
    _, backprop = ours.begin_update(MENTIONS)
    assert backprop(d_vectors) == []
    torch.stack(naive_vectors(reference)).backward(torch.tensor(d_vectors))
    assert_same_gradients(ours, reference)
    marks = encoder_of(
        ours.get_ref("mention")
    ).transformer.embeddings.token_type_embeddings.weight.grad[1]
    assert marks.abs().max() > 0
