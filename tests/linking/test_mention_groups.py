from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.linking.mention_groups import group_means

ROWS = st.lists(
    st.tuples(st.floats(-9, 9, width=32), st.floats(-9, 9, width=32), st.integers(-2, 2)),
    min_size=1,
    max_size=8,
)


@given(ROWS, st.sampled_from([np.float32, np.float64]))
def test_each_row_is_the_mean_of_its_group(problem, dtype) -> None:
    rows, groups = np.array([row[:2] for row in problem], dtype), [row[2] for row in problem]
    means = group_means(rows, np.array(groups))
    assert means.shape == rows.shape and means.dtype == dtype
    for mean, group in zip(means, groups):
        members = [row[:2] for row in problem if row[2] == group]
        for column in (0, 1):
            expected = sum(member[column] for member in members) / len(members)
            np.testing.assert_allclose(mean[column], expected, rtol=1e-6, atol=1e-6)
