"""Inner products, one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacy_pel.kb.vectors.inner_products import inner_products
from spacy_pel.kb.vectors.matrix import DTYPES, MatrixWriter, VectorMatrix

DIM = 37


@pytest.fixture(params=["memory", *DTYPES])
def matrix(request: pytest.FixtureRequest, tmp_path: Path) -> VectorMatrix:
    vectors = np.random.default_rng(0).standard_normal((50, DIM)).astype(np.float32)
    if request.param == "memory":
        return VectorMatrix(vectors)
    writer = MatrixWriter(tmp_path / "vectors.npy", DIM, request.param)
    writer.append(vectors)
    writer.close()
    scales = np.concatenate(writer.scales) if writer.scales else None
    return VectorMatrix.opened(tmp_path / "vectors.npy", scales)


@pytest.fixture
def queries() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((9, DIM)).astype(np.float32)


def test_products_are_those_of_the_rows(matrix: VectorMatrix, queries: np.ndarray) -> None:
    random = np.random.default_rng(2)
    lines = np.sort(random.choice([0, 1, 3, 8], 300))  # some queries have none
    rows = random.integers(50, size=300)
    whole = matrix.take(np.arange(50)).astype(float)
    expected = [queries[i].astype(float) @ whole[j] for i, j in zip(lines, rows)]
    np.testing.assert_allclose(inner_products(matrix, queries, lines, rows), expected, atol=1e-5)


def test_each_is_the_same_in_any_batch(matrix: VectorMatrix, queries: np.ndarray) -> None:
    lines, rows = np.repeat(np.arange(9), 50), np.tile(np.arange(50), 9)
    together = inner_products(matrix, queries, lines, rows)
    for query in range(9):
        for some in (slice(0, 50), slice(7, 8), slice(3, 20)):
            alone = inner_products(
                matrix, queries[query : query + 1], np.zeros_like(rows[some]), rows[some]
            )
            np.testing.assert_array_equal(alone, together.reshape(9, 50)[query, some])


def test_none(matrix: VectorMatrix, queries: np.ndarray) -> None:
    none = np.empty(0, dtype=np.int64)
    assert inner_products(matrix, queries, none, none).shape == (0,)
    assert inner_products(matrix, queries[:0], none, none).shape == (0,)
