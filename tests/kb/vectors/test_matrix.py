from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from spacy_pel.kb.vectors import matrix as module
from spacy_pel.kb.vectors.matrix import VectorMatrix, coded, written_matrix


@pytest.mark.parametrize("dtype, error", [("float32", 0), ("float16", 1e-3), ("int8", 4e-3)])
def test_what_is_written_piece_by_piece_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, error: float
) -> None:
    monkeypatch.setattr(module, "_BLOCK_SIZE", 70)
    rows = np.random.default_rng(0).uniform(-1, 1, (1000, 7)).astype(np.float32)
    blocks = [rows[:0], rows[:1], rows[1:999], rows[999:]]
    matrix = written_matrix(tmp_path / "vectors.npy", blocks, 7, dtype)
    assert (len(matrix), matrix.dim) == (1000, 7)
    some = np.array([999, 0, 5, 5])
    taken = matrix.take(some)
    assert taken.dtype == np.float32 and taken.flags.writeable
    np.testing.assert_allclose(taken, rows[some], atol=error)
    np.testing.assert_array_equal(taken, VectorMatrix(*coded(rows, dtype)).take(some))
    assert matrix.take(some[:0]).shape == (0, 7)
    monkeypatch.setattr(module, "_BLOCK_ROWS", 3)
    for wanted, size in ((None, 10), (some, 3)):
        numbers, blocks = zip(*matrix.blocks(wanted))
        assert len(numbers[0]) == len(blocks[0]) == size
        rows = np.arange(1000) if wanted is None else wanted
        np.testing.assert_array_equal(np.concatenate(numbers), rows)
        np.testing.assert_array_equal(np.concatenate(blocks), matrix.take(rows))


finite = st.just(0.0) | st.floats(2.0**-60, 2.0**60, width=32) | st.floats(-8, -0.5, width=32)
small_matrices = arrays.arrays(
    np.float32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=8), elements=finite
)


@given(small_matrices)
def test_quantized_is_near_and_stays_as_it_is(rows: np.ndarray) -> None:
    values, scales = coded(rows, "int8")
    assert values.dtype == np.int8 and scales.dtype == np.float32
    again = values * scales[:, None]
    assert (np.abs(again - rows) <= 0.51 * scales[:, None]).all()
    recoded = VectorMatrix(*coded(again, "int8"))
    np.testing.assert_array_equal(recoded.take(np.arange(len(rows))), again)
