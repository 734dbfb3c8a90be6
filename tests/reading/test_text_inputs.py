from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.reading.text_inputs import TextInputs, TokenIds, groups_by_length, pad_texts


def test_padding() -> None:
    inputs = [
        TokenIds(np.array([5, 6, 7], dtype=np.int32), 1, 2),
        TokenIds(np.array([8], dtype=np.int32), 0, 0),  # a mention without tokens
        TokenIds(np.array([9, 4], dtype=np.int32), 0, 2),
    ]
    batch = pad_texts(inputs, 3)
    assert batch.ids.dtype == np.int64
    assert batch.ids.tolist() == [[5, 6, 7], [8, 3, 3], [9, 4, 3]]
    assert batch.mask.tolist() == [[True] * 3, [True, False, False], [True, True, False]]
    assert batch.focus.tolist() == [[False, True, False], [True, False, False], [True, True, False]]


def test_a_group_of_inputs_is_padded_with_its_perturbations() -> None:
    tokens = [TokenIds(np.full(n, n, dtype=np.int32), 0, 1) for n in (3, 1, 2)]
    added = [np.full((n, 2), 10 + n, dtype=np.float32) for n in (3, 1, 2)]
    inputs = TextInputs(tokens, added)
    assert inputs.n_outputs == 3 and inputs.lengths().tolist() == [3, 1, 2]
    group = np.array([2, 1])
    assert inputs.outputs_of(group).tolist() == [2, 1]
    batch, perturbation = inputs.padded(group, 9, 0)
    assert batch.ids.tolist() == [[2, 2], [1, 9]]
    assert perturbation.tolist() == [[[12, 12], [12, 12]], [[11, 11], [0, 0]]]
    assert TextInputs(tokens).padded(group, 9, 0).perturbation is None
    assert TextInputs([]).lengths().shape == (0,)


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
