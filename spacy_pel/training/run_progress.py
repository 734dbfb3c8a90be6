"""How far a training is, what its evaluations have said, and when it is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


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
