"""One training step of the retriever: clean loss, adversarial loss, gradients (PEL, Eq. 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..architectures import TowerInputs
from ..linking.retriever import Retriever
from ..models.adversarial import FGSM
from ..models.losses import ScoreLoss, Targets
from ..reading.inputs import EntityText, MentionInContext

# From the mentions' vectors [n, d] to the proxies of the batch and what is asked of them.
ChooseProxies = Callable[[np.ndarray], tuple[list[EntityText], Targets]]


class StepLoss(NamedTuple):
    """Mean loss over the mentions: clean, and adversarial times lambda (0 without FGSM)."""

    clean: float
    adversarial: float


def accumulate_gradients(
    retriever: Retriever,
    mentions: Sequence[MentionInContext],
    choose_proxies: ChooseProxies,
    loss: ScoreLoss,
    fgsm: FGSM | None,
) -> StepLoss:
    """Add the gradients of  L(m, P) + lambda L(m, P_adv)  to the towers' weights.

    The mentions are encoded once, and are the anchors of both losses; the proxies are encoded once
    clean and, with FGSM, once with perturbed input embeddings.
    """
    tower = retriever.entity_tower
    mention_vectors, backprop_mentions = retriever.mention_tower.begin_update(
        TowerInputs(retriever.mention_tokens(mentions))
    )
    texts, targets = choose_proxies(mention_vectors)
    tokens = retriever.entity_tokens(texts)
    shapes = [(len(t.ids), retriever.width) for t in tokens]
    unperturbed = [np.zeros(shape, dtype=np.float32) for shape in shapes] if fgsm else None

    vectors, backprop = tower.begin_update(TowerInputs(tokens, unperturbed))
    (d_mentions, d_vectors), clean = loss((mention_vectors, vectors), targets)
    d_inputs = backprop(d_vectors)
    adversarial = 0.0
    if fgsm:
        perturbed = TowerInputs(tokens, fgsm.perturbations(d_inputs))
        vectors, backprop = tower.begin_update(perturbed)
        (d_again, d_vectors), adversarial = loss((mention_vectors, vectors), targets)
        backprop(fgsm.weight * d_vectors)
        d_mentions = d_mentions + fgsm.weight * d_again
        adversarial *= fgsm.weight
    backprop_mentions(d_mentions)
    return StepLoss(clean, adversarial)
