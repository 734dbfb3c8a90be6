"""The ranker: a small network that computes the probability of each candidate of a mention."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .encoders import one_torch_thread

_HIDDEN = 32
_BATCH = 256  # mentions
_EPOCHS, _MIN_STEPS = 40, 600
_RATE, _DECAY = 3e-3, 1e-3
# The dropout of features. Without it, patterns of a few mentions in one kind of text decide in others:
# acronyms in notes got no sense at all.
_DROPOUT = 0.2
# The largest distance of a feature from its mean, in standard deviations. Nearly all entities of a KB may
# have a type. An entity that a user adds without one would be 300 away, and its probability 0.
_FARTHEST = 8.0


class Ranker(nn.Module):
    """Compute the probability of each candidate, and the probability that no candidate is correct.

    There are two perceptrons with one hidden layer. One scores a candidate by its features and those of
    the mention. The other scores "none" by the features of the mention and of its two best candidates. A
    softmax over these scores gives one distribution per mention.

    Args:
        n_candidate: The number of features of a candidate.
        n_mention: The number of features of a mention.
    """

    candidate_mean: Tensor
    candidate_spread: Tensor
    mention_mean: Tensor
    mention_spread: Tensor

    def __init__(self, n_candidate: int, n_mention: int) -> None:
        super().__init__()
        self.candidate = _perceptron(n_candidate + n_mention)
        self.none = _perceptron(2 * n_candidate + n_mention)
        for name, size in (("candidate", n_candidate), ("mention", n_mention)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_spread", torch.ones(size))

    def forward(self, candidates: Tensor, mentions: Tensor, present: Tensor) -> Tensor:
        """Return log-probabilities, float32 [n, k + 1]; the last column is "none".

        Args:
            candidates: float32 [n, k, n_candidate], two candidates or more.
            mentions: float32 [n, n_mention].
            present: bool [n, k], false where a mention has fewer candidates.
        """
        candidates = (candidates - self.candidate_mean) / self.candidate_spread
        mentions = (mentions - self.mention_mean) / self.mention_spread
        candidates, mentions = (x.clamp(-_FARTHEST, _FARTHEST) for x in (candidates, mentions))
        beside = mentions[:, None].expand(-1, candidates.shape[1], -1)
        hide = partial(nn.functional.dropout, p=_DROPOUT, training=self.training)
        scores = self.candidate(hide(torch.cat([candidates, beside], dim=2)))[..., 0]
        scores = scores.masked_fill(~present, -torch.inf)
        best = scores.detach().topk(2).indices
        best_two = candidates.gather(1, best[..., None].expand(-1, -1, candidates.shape[2]))
        none = self.none(hide(torch.cat([mentions, best_two.flatten(1)], dim=1)))
        return torch.cat([scores, none], dim=1).log_softmax(dim=1)

    @torch.inference_mode()
    def probabilities(
        self, candidates: np.ndarray, mentions: np.ndarray, present: np.ndarray
    ) -> np.ndarray:
        """Return probabilities, float32 [n, k + 1], for the arguments of ``forward`` as arrays."""
        inputs = map(torch.from_numpy, (candidates, mentions, present))
        with one_torch_thread():
            log_p: Tensor = self(*inputs)
            return log_p.exp().numpy()

    def as_data(self) -> dict[str, Any]:
        """Return the weights as plain lists for JSON."""
        return {name: weight.tolist() for name, weight in self.state_dict().items()}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Ranker:
        """Restore a ranker from ``as_data``."""
        ranker = cls(len(data["candidate_mean"]), len(data["mention_mean"]))
        ranker.load_state_dict({name: torch.tensor(weight) for name, weight in data.items()})
        return ranker.eval()


def _perceptron(n_inputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_inputs, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 1))


def fitted_ranker(
    candidates: np.ndarray, mentions: np.ndarray, present: np.ndarray, correct: np.ndarray
) -> Ranker:
    """Fit a ranker with a fixed seed by maximising the probability of the correct candidates.

    Args:
        candidates, mentions, present: Those of ``Ranker.forward``.
        correct: bool [n, k], whether a candidate is correct. A mention may have no correct candidate.
    """
    with torch.random.fork_rng(devices=[]), one_torch_thread():
        torch.manual_seed(0)
        ranker = Ranker(candidates.shape[2], mentions.shape[1])
        ranker.candidate_mean, ranker.candidate_spread = _scale(candidates[present])
        ranker.mention_mean, ranker.mention_spread = _scale(mentions)
        targets = torch.from_numpy(np.column_stack([correct, ~correct.any(axis=1)]))
        inputs = [*map(torch.from_numpy, (candidates, mentions, present)), targets]
        per_epoch = -(-len(mentions) // _BATCH)
        epochs = max(_EPOCHS, -(-_MIN_STEPS // per_epoch))
        optimizer = torch.optim.AdamW(ranker.parameters(), lr=_RATE, weight_decay=_DECAY)
        decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, epochs * per_epoch)
        for _ in range(epochs):
            for batch in torch.randperm(len(mentions)).split(_BATCH):
                *features, is_target = (column[batch] for column in inputs)
                log_p = ranker(*features).masked_fill(~is_target, -torch.inf)
                optimizer.zero_grad()
                (-log_p.logsumexp(dim=1).mean()).backward()
                optimizer.step()
                decay.step()
    return ranker.eval()


def _scale(features: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation of features [n, f]; 1 for a constant feature."""
    spread = features.std(axis=0)
    spread[spread < 1e-6] = 1.0
    return torch.from_numpy(features.mean(axis=0)), torch.from_numpy(spread)
