from __future__ import annotations

import json

import pytest

from spacy_pel.training.run_progress import RunProgress


def evaluated(scores: list[float]) -> list[RunProgress]:
    """A training with an evaluation at every second step, after each of them."""
    after = []
    for n in range(1, len(scores) + 1):
        progress = RunProgress()
        for i, score in enumerate(scores[:n]):
            progress.step = 2 * i
            progress.note_score(score)
        after.append(progress)
    return after


def test_early_stopping_looks_at_the_earliest_of_the_best() -> None:
    after = evaluated([0.1, 0.5, 0.4, 0.5, 0.3])
    assert [progress.is_over(patience=6, max_steps=0) for progress in after] == [False] * 4 + [True]
    assert not any(progress.is_over(patience=0, max_steps=0) for progress in after)


@pytest.mark.parametrize(("max_steps", "over"), [(0, False), (5, False), (4, True), (3, True)])
def test_it_is_over_at_the_last_step(max_steps: int, over: bool) -> None:
    assert evaluated([0.1, 0.2, 0.3])[-1].is_over(patience=0, max_steps=max_steps) is over
    assert not RunProgress(step=9).is_over(patience=1, max_steps=1)  # not before an evaluation


def test_a_score_is_the_best_if_none_is_higher() -> None:
    progress = RunProgress()
    best = []
    for progress.step, score in enumerate([0.1, 0.5, 0.4, 0.5, 0.6]):
        best.append(progress.note_score(score))
    assert best == [True, True, False, True, True]


def test_it_goes_on_from_its_facts() -> None:
    progress = evaluated([0.1, 0.5])[-1]
    progress.losses, progress.seconds = {"proxy_linker": 2.5}, 7.0
    resumed = RunProgress()
    resumed.restore(json.loads(json.dumps(progress.facts())))
    assert resumed == progress
