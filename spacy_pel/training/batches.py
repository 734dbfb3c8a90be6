"""The batches of a training, whose place can be kept and found again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from spacy.training import Example

from .checkpoint import set_python_random


class Batches:
    """The (epoch, batch) pairs of ``spacy.training.loop.create_train_batches``.

    states: the state of ``random`` at the beginning of each epoch, which spaCy shuffles by.
    first_of_epochs: the number of each epoch's first batch.
    """

    def __init__(self, batches: Iterator[tuple[int, list[Example]]]):
        self._batches = batches
        self.states: list[Any] = []
        self.first_of_epochs: list[int] = []
        self._drawn = 0

    def __iter__(self) -> Iterator[tuple[int, list[Example]]]:
        return self

    def __next__(self) -> tuple[int, list[Example]]:
        state = random.getstate()
        epoch, batch = next(self._batches)
        if epoch == len(self.states):
            self.states.append(state)
            self.first_of_epochs.append(self._drawn)
        self._drawn += 1
        return epoch, list(batch)

    def skip(self, n: int, states: list[Any]) -> tuple[int, list[Example]]:
        """Go past the first n batches, at least one, as they were drawn from those states.

        Gives the last one's epoch, and the first batch. It takes as long as reading the corpus.
        """
        skipped = []
        for _ in range(n):
            if len(self.states) < len(states):
                set_python_random(states[len(self.states)])
            skipped = [*skipped[:1], next(self)]
        return skipped[-1][0], skipped[0][1]
