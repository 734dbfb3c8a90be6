import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.reading.text_inputs import (
    groups_by_length,
)


@given(st.lists(st.integers(1, 30)), st.integers(1, 60))
def test_groups_hold_each_input_once_and_no_more_than_they_may(
    lengths: list[int], max_tokens: int
) -> None:
    groups = groups_by_length(np.array(lengths, dtype=np.int64), max_tokens)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    in_order = [lengths[i] for group in groups for i in group]
    assert in_order == sorted(lengths)
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[i] for i in group) <= max_tokens
    for group, following in zip(groups, groups[1:]):  # no group that might have held one more
        assert (len(group) + 1) * lengths[following[0]] > max_tokens
