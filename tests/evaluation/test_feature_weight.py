"""The weight of a feature, against a fine grid of weights and against numbers made up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.evaluation.calibration import feature_weight


def drawn(n: int, slope: float, weight: float, seed: int = 0, k: int = 8):
    """Mentions whose right candidate is drawn by the model itself."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.5, 0.1, (n, k))
    matches = rng.random((n, k)) < 0.2
    noise = rng.gumbel(size=(n, k))  # the largest of logits and such noise is a softmax's draw
    right = np.zeros((n, k), dtype=bool)
    right[np.arange(n), (slope * (scores + weight * matches) + noise).argmax(axis=1)] = True
    return scores, matches, right


def likelihood(slope: float, weight: float, scores, matches, right) -> float:
    """With one right candidate a mention."""
    logits = slope * (scores + weight * matches)
    return (logits[right] - np.log(np.exp(logits).sum(axis=1))).sum()


def test_no_other_weight_is_likelier() -> None:
    case = drawn(60, 12, 0.1, k=4)
    found = feature_weight(*case)
    best = max(
        (likelihood(slope, weight, *case), weight)
        for slope in np.linspace(2, 30, 57)
        for weight in np.linspace(-0.3, 0.5, 81)
    )
    assert found == pytest.approx(best[1], abs=0.02)


def test_the_unit_of_the_scores_is_that_of_the_weight_and_levels_do_not_matter() -> None:
    scores, _, right = drawn(500, 20, 0.0)
    feature = np.random.default_rng(1).normal(0, 1, scores.shape) + right
    weight = feature_weight(scores, feature, right)
    level = np.arange(len(scores))[:, None]
    other = feature_weight(100 * scores - 7, 10 * feature + level, right)
    assert weight > 0 and other == pytest.approx(10 * weight, rel=0.01)
    assert 0.1 < feature_weight(scores, right, right) < 10  # finite where it is always right


def test_mentions_that_cannot_say() -> None:
    scores, matches, right = drawn(50, 20, 0.2)
    nothing = np.zeros_like(right)
    assert feature_weight(scores, matches, nothing) is None  # no right candidate
    assert feature_weight(scores, matches, ~nothing) is None  # and no wrong one
    assert feature_weight(scores[:, :0], matches[:, :0], right[:, :0]) is None
    assert feature_weight(-scores, matches & False, right) is None  # the lower, the better
    assert feature_weight(*drawn(2_000, 20, -0.1)) is None  # names that speak against a candidate


cells = st.tuples(st.floats(-1, 1, width=32) | st.just(-np.inf), st.booleans(), st.booleans())
tables = st.integers(1, 4).flatmap(
    lambda k: st.lists(st.lists(cells, min_size=k, max_size=k), min_size=1, max_size=6)
)


@settings(deadline=None)
@given(tables)
def test_any_table_has_a_finite_weight_or_none(table) -> None:
    scores, matches, right = (np.array([[cell[i] for cell in row] for row in table])
                              for i in range(3))  # fmt: skip
    weight = feature_weight(scores.astype(np.float32), matches.astype(bool), right.astype(bool))
    assert weight is None or (np.isfinite(weight) and weight > 0)
