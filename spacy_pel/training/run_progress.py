"""How far a training is: its batches, which a resumed training finds again, and its evaluations."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from spacy.training import Example

from .checkpoint import set_python_random


class ResumableBatches:
    """The (epoch, batch) pairs of ``spacy.training.loop.create_train_batches``.

    Args:
        batches: what spaCy's function returned.

    Attributes:
        random_states: the state of ``random`` at the beginning of each epoch. spaCy shuffles by it.
        first_of_epochs: the number of the first batch of each epoch.
    """

    def __init__(self, batches: Iterator[tuple[int, list[Example]]]):
        self._batches = batches
        self.random_states: list[Any] = []
        self.first_of_epochs: list[int] = []
        self._drawn = 0

    def __iter__(self) -> Iterator[tuple[int, list[Example]]]:
        return self

    def __next__(self) -> tuple[int, list[Example]]:
        state = random.getstate()
        epoch, batch = next(self._batches)
        if epoch == len(self.random_states):
            self.random_states.append(state)
            self.first_of_epochs.append(self._drawn)
        self._drawn += 1
        return epoch, list(batch)

    def skip(self, n: int, random_states: list[Any]) -> tuple[int, list[Example]]:
        """Skip the first n batches. This takes as long as reading the corpus.

        Args:
            n: the number of batches to skip, at least one.
            random_states: those of the training that drew the batches.

        Returns:
            The epoch of the last batch skipped, and the first batch.
        """
        skipped = []
        for _ in range(n):
            if len(self.random_states) < len(random_states):
                set_python_random(random_states[len(self.random_states)])
            skipped = [*skipped[:1], next(self)]
        return skipped[-1][0], skipped[0][1]


@dataclass
class RunProgress:
    """How far a training is.

    Attributes:
        step: the number of the last step. The first one is 0, as in spaCy.
        epoch: the epoch of the last step.
        results: the score and the step of each evaluation.
        losses: the sum of the losses since the last evaluation, by component.
        seconds: the time that the steps took, without evaluations.
    """

    step: int = -1
    epoch: int = 0
    results: list[tuple[float, int]] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def is_over(self, patience: int, max_steps: int) -> bool:
        """Whether to stop, as spaCy decides it.

        Args:
            patience: the number of steps without a better score after which to stop; 0: never.
            max_steps: the number of the last step; 0: no limit.
        """
        if not self.results:
            return False
        _, best = max((score, -step) for score, step in self.results)  # the earliest of equals
        no_gain = bool(patience) and self.step + best >= patience
        return no_gain or bool(max_steps) and self.step >= max_steps

    def note_score(self, score: float) -> bool:
        """Note the score of an evaluation after the last step.

        Returns:
            Whether no evaluation had a higher one.
        """
        self.results.append((score, self.step))
        return score == max(self.results)[0]

    def facts(self) -> dict[str, Any]:
        """What a checkpoint keeps. The epoch is found again with the batches."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "losses": self.losses,
            "results": self.results,
        }

    def restore(self, facts: dict[str, Any]) -> None:
        """Go on from the facts of a checkpoint."""
        self.step, self.seconds, self.losses = facts["step"], facts["seconds"], facts["losses"]
        self.results = [(score, step) for score, step in facts["results"]]
