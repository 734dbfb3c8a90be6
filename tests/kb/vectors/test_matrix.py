import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from spacy_pel.kb.vectors.matrix import VectorMatrix, coded

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
