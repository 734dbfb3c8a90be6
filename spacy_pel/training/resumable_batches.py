"""The batches of a training, in an order that a resumed training finds again."""

from __future__ import annotations

import random
from collections.abc import Iterator
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
