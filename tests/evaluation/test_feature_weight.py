"""The weights of features, against a fine grid of weights and against numbers made up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.evaluation.calibration import feature_weights


def drawn(n: int, slope: float, weight: float, seed: int = 0, k: int = 8):
    """Mentions whose right candidate is drawn by the model itself."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.5, 0.1, (n, k))
    matches = rng.random((n, k)) < 0.2
    noise = rng.gumbel(size=(n, k))  # the largest of logits and such noise is a softmax's draw
    right = np.zeros((n, k), dtype=bool)
    right[np.arange(n), (slope * (scores + weight * matches) + noise).argmax(axis=1)] = True
    return scores, [matches], right


def test_no_other_weight_is_likelier() -> None:
    scores, [matches], right = case = drawn(60, 12, 0.1, k=4)

    def likelihood(slope: float, weight: float) -> float:
        logits = slope * (scores + weight * matches)
        return (logits[right] - np.log(np.exp(logits).sum(axis=1))).sum()

    grid = [(s, w) for s in np.linspace(2, 30, 57) for w in np.linspace(-0.3, 0.5, 81)]
    best = max(grid, key=lambda pair: likelihood(*pair))
    assert feature_weights(*case)[0] == pytest.approx(best[1], abs=0.02)


def test_mentions_that_cannot_say() -> None:
    scores, features, right = drawn(50, 20, 0.2)
    nothing = np.zeros_like(right)
    assert feature_weights(scores, features, nothing) is None  # no right candidate
    assert feature_weights(scores, features, ~nothing) is None  # and no wrong one
    assert feature_weights(-scores, [nothing], right) is None  # the lower, the better


cells = st.tuples(st.floats(-1, 1, width=32) | st.just(-np.inf), st.booleans(), st.booleans())
tables = st.integers(1, 4).flatmap(
    lambda k: st.lists(st.lists(cells, min_size=k, max_size=k), min_size=1, max_size=6)
)


@settings(deadline=None)
@given(tables)
def test_any_table_has_finite_weights_or_none(table) -> None:
    scores, matches, right = (np.array([[cell[i] for cell in row] for row in table])
                              for i in range(3))  # fmt: skip
    weights = feature_weights(scores.astype(np.float32), [matches.astype(bool)], right.astype(bool))
    assert weights is None or np.isfinite(weights).all()
