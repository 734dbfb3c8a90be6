"""The nearest rows, block by block, against the whole matrix of scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.kb.vectors import exact
from spacy_pel.kb.vectors import matrix as vectors_module
from spacy_pel.kb.vectors.exact import nearest_of_all
from spacy_pel.kb.vectors.matrix import VectorMatrix, quantized


def matrix_of(rows: np.ndarray, dtype: str = "float32") -> VectorMatrix:
    return VectorMatrix(*quantized(rows)) if dtype == "int8" else VectorMatrix(rows.astype(dtype))


def assert_nearest(matrix: VectorMatrix, queries, depth: int, rows=None) -> None:
    """That what is found is as good as the best of all scores; which of equals is left open."""
    scores, found = nearest_of_all(matrix, queries, depth, rows)
    assert scores.shape == found.shape == (len(queries), depth)
    assert scores.dtype == np.float32 and found.dtype == np.int64
    looked_at = np.arange(len(matrix)) if rows is None else rows
    every = queries.astype(float) @ matrix.take(looked_at).astype(float).T
    n = min(depth, len(looked_at))
    best = -np.sort(-every, axis=1)[:, :n]
    np.testing.assert_allclose(scores[:, :n], best, rtol=1e-5, atol=1e-4)
    assert np.isneginf(scores[:, n:]).all() and (found[:, n:] == -1).all()
    assert (np.diff(scores[:, :n], axis=1) <= 0).all()
    for line, numbers, given_scores in zip(every, found[:, :n], scores[:, :n]):
        assert len(set(numbers.tolist())) == n and np.isin(numbers, looked_at).all()
        places = np.searchsorted(looked_at, numbers)
        np.testing.assert_allclose(given_scores, line[places], rtol=1e-5, atol=1e-4)


@st.composite
def searches(draw):
    """Vectors of few small integers, so full of ties and repeated rows, and rows to look at."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim, spread = draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 50]))
    n_rows, n_queries = draw(st.integers(0, 60)), draw(st.integers(0, 6))
    rows = random.integers(-spread, spread + 1, (n_rows, dim)).astype(np.float32)
    queries = random.integers(-spread, spread + 1, (n_queries, dim)).astype(np.float32)
    share = draw(st.sampled_from([None, 0.0, 0.3, 1.0]))
    chosen = None if share is None else np.flatnonzero(random.random(n_rows) < share)
    return rows, queries, chosen


@settings(max_examples=150, deadline=None)
@given(
    searches(),
    st.sampled_from(vectors_module.DTYPES),
    st.integers(1, 70),
    st.integers(1, 40),
    st.integers(1, 200),
)
def test_any_blocks_give_the_best_of_all(search, dtype, depth, block_rows, cells) -> None:
    rows, queries, chosen = search
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors_module, "_BLOCK", block_rows * rows.shape[1])
        patch.setattr(exact, "_GATHERED", block_rows)
        patch.setattr(exact, "_CELLS", cells)
        assert_nearest(matrix_of(rows, dtype), queries, depth, chosen)


@pytest.mark.parametrize("order", ["best first", "best last", "random"])
@pytest.mark.parametrize("depth", [1, 7, 100])
def test_in_whatever_order_the_best_come(
    monkeypatch: pytest.MonkeyPatch, order: str, depth: int
) -> None:
    """Where they come last, every block has more of them than there are places."""
    random = np.random.default_rng(0)
    queries = np.abs(random.standard_normal((9, 5))).astype(np.float32)
    rows = np.abs(random.standard_normal((1000, 5))).astype(np.float32)
    if order != "random":
        rows *= np.geomspace(1, 1000, 1000, dtype=np.float32)[:, None]
    if order == "best first":
        rows = rows[::-1]
    monkeypatch.setattr(vectors_module, "_BLOCK", 37 * 5)
    monkeypatch.setattr(exact, "_CELLS", 2 * 37)
    assert_nearest(matrix_of(np.ascontiguousarray(rows)), queries, depth)


def test_all_rows_alike() -> None:
    rows, queries = np.ones((50, 3), np.float32), -np.ones((2, 3), np.float32)
    assert_nearest(matrix_of(rows), queries, 8)
    assert_nearest(matrix_of(rows), queries, 8, np.array([3, 41]))


def test_a_block_and_a_step_of_the_usual_size() -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((3000, 8)).astype(np.float32)
    assert_nearest(matrix_of(rows, "float16"), rows[:100], 20)
    assert_nearest(matrix_of(rows, "int8"), rows[:100], 20, np.arange(0, 3000, 2))
