from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.reading.text_inputs import (
    TextInputs,
    TokenIds,
    Window,
    WindowInputs,
    groups_by_length,
)


def test_a_group_of_texts_is_padded_with_its_perturbations() -> None:
    tokens = [
        TokenIds(np.array([5, 6, 7], dtype=np.int32), 1, 2),
        TokenIds(np.array([8], dtype=np.int32), 0, 0),  # a mention without tokens
        TokenIds(np.array([9, 4], dtype=np.int32), 0, 2),
    ]
    added = [np.full((len(x.ids), 2), 10 + len(x.ids), dtype=np.float32) for x in tokens]
    inputs = TextInputs(tokens, added)
    assert inputs.n_outputs == 3 and inputs.lengths().tolist() == [3, 1, 2]
    group = np.array([2, 1])
    assert inputs.outputs_of(group).tolist() == [2, 1]
    batch = inputs.padded(group, 3, 0)
    assert batch["ids"].dtype == np.int64 and batch["ids"].tolist() == [[9, 4], [8, 3]]
    assert batch["mask"].tolist() == [[True, True], [True, False]]
    assert batch["focus"].tolist() == [[True, True], [True, False]]
    assert batch["perturbation"].tolist() == [[[12, 12], [12, 12]], [[11, 11], [0, 0]]]
    assert TextInputs(tokens).padded(np.array([0]), 3, 5).keys() == {"ids", "mask", "focus"}
    assert TextInputs([]).lengths().shape == (0,)


def test_a_group_of_windows_is_padded_with_what_is_known() -> None:
    windows = [
        Window(
            np.arange(n), np.array(outputs), {"focus": np.arange(n) == 1}, np.array([[0, 1]] * m)
        )
        for n, outputs, m in ((3, [2], 1), (2, [0, 1], 2))
    ]
    inputs = WindowInputs(windows)
    assert inputs.n_outputs == 3 and inputs.lengths().tolist() == [3, 2]
    assert inputs.outputs_of(np.array([1, 0])).tolist() == [0, 1, 2]
    batch = inputs.padded(np.array([0, 1]), 9, 8)
    assert batch["ids"].tolist() == [[0, 1, 2, 9], [0, 1, 9, 9]]
    assert batch["focus"].tolist() == [[False, True, False, False]] * 2
    assert batch["spans"].tolist() == [[0, 1], [4, 5], [4, 5]]  # counted through both rows


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
