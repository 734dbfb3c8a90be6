from __future__ import annotations

import numpy as np
import pytest
import torch

from spacy_pel.architectures import encoder_of
from spacy_pel.models.adversarial import FGSM
from spacy_pel.models.losses import CrossEntropyLoss, ProxyLoss, ScoreLoss, Targets
from spacy_pel.reading.text_inputs import TextInputs

from ..towers import ENTITIES, MENTIONS, bert_vector, retriever


def test_a_perturbation_is_epsilon_times_the_sign() -> None:
    gradients = [np.array([[3.0, -1e-9], [0.0, -5.0]], np.float32), np.ones((1, 2), np.float32)]
    first, second = FGSM(epsilon=0.5).perturbations(gradients)
    assert first.tolist() == [[0.5, -0.5], [0, -0.5]] and second.tolist() == [[0.5, 0.5]]
    assert first.dtype == np.float32
    assert (FGSM().epsilon, FGSM().weight) == (0.01, 1.0)  # the paper's, table 6


@pytest.mark.parametrize("loss", [ProxyLoss(), CrossEntropyLoss()])
def test_perturbations_are_eq_6_and_7(loss: ScoreLoss) -> None:
    """Where each proxy is of one mention, a step up the loss is Eq. 6 for e-, and Eq. 7 for e+."""
    linker = retriever(shared=False)
    tower = linker.entity_tower
    mention_vectors = linker.mention_vectors(MENTIONS[:2])
    tokens = linker.entity_tokens(ENTITIES)
    owner = [0, 1, 0, 1, 1]
    targets = Targets(
        np.array([0, 1]), np.array([[False, False, True, False, False], [False] * 3 + [True] * 2])
    )
    zeros = [np.zeros((len(t.ids), linker.width), np.float32) for t in tokens]
    vectors, backprop = tower.begin_update(TextInputs(tokens, zeros))
    (_, d_vectors), _ = loss((mention_vectors, vectors), targets)
    perturbations = FGSM(epsilon=0.01).perturbations(backprop(d_vectors))

    encoder = encoder_of(tower).eval()
    compared = 0
    for column, inputs in enumerate(tokens):
        embeddings = torch.zeros(len(inputs.ids), linker.width, requires_grad=True)
        score = bert_vector(encoder, inputs, embeddings) @ torch.tensor(
            mention_vectors[owner[column]]
        )
        gradient = torch.autograd.grad(score, embeddings)[0].numpy()
        direction = -1 if column in (0, 1) else 1  # Eq. 7 for e+, Eq. 6 for e-
        clear = np.abs(gradient) > 1e-5 * np.abs(gradient).max()  # not lost in rounding
        expected = direction * np.float32(0.01) * np.sign(gradient)
        np.testing.assert_array_equal(perturbations[column][clear], expected[clear])
        compared += clear.mean()
    assert compared / len(tokens) > 0.99


@pytest.mark.parametrize("loss", [ProxyLoss(), CrossEntropyLoss()])
def test_perturbed_proxies_are_harder(loss: ScoreLoss) -> None:
    linker = retriever()
    tower = linker.entity_tower
    mention_vectors = linker.mention_vectors(MENTIONS[:1])
    tokens = linker.entity_tokens(ENTITIES)
    targets = Targets(np.array([0]), np.array([[False, True, True, True, True]]))
    zeros = [np.zeros((len(t.ids), linker.width), np.float32) for t in tokens]
    vectors, backprop = tower.begin_update(TextInputs(tokens, zeros))
    (_, d_vectors), _ = loss((mention_vectors, vectors), targets)
    perturbations = FGSM(epsilon=0.01).perturbations(backprop(d_vectors))
    scores = vectors @ mention_vectors[0]
    harder = tower.predict(TextInputs(tokens, perturbations)) @ mention_vectors[0]
    assert harder[0] < scores[0] and (harder[1:] > scores[1:]).all()
