import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.models.architectures import (
    encoder_of,
    set_dropout,
    towers,
)
from spacy_pel.text import token_inputs as reading
from spacy_pel.text.entity_texts import EntityText
from spacy_pel.text.token_inputs import text_inputs

from ...towers import TEXTS, bert_vector, biencoder


def test_neither_order_nor_batch_nor_threads_change_a_vector(monkeypatch) -> None:
    model = biencoder()
    set_dropout(model, 0.5)  # which inference has none of
    tower, rng = model.get_ref("entity"), np.random.default_rng(0)
    words = " ".join(TEXTS).split()
    texts = [EntityText(" ".join(rng.choice(words, n))) for n in rng.permutation(np.arange(1, 20))]
    tokens = model.attrs["entity_reader"].tokens(texts)
    together = tower.predict(text_inputs(tokens))
    assert together.shape == (19, 32) and together.dtype == np.float32
    alone = np.concatenate([tower.predict(text_inputs([t])) for t in tokens])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    monkeypatch.setattr(reading, "CORE_TOKENS", 30)  # many groups
    order = rng.permutation(len(tokens))
    shuffled = text_inputs([tokens[i] for i in order])
    found = tower.predict(shuffled)
    np.testing.assert_allclose(found, together[order], atol=1e-5)
    expected = bert_vector(encoder_of(tower).eval(), tokens[7]).detach().numpy()
    np.testing.assert_allclose(together[7], expected, atol=1e-5)
    assert tower.predict(text_inputs([])).shape == (0, 32)
    torch.set_num_threads(3)
    try:
        np.testing.assert_array_equal(tower.predict(shuffled), found)
        assert torch.get_num_threads() == 3
        monkeypatch.setattr(towers, "ThreadPoolExecutor", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tower.predict(shuffled)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)


@given(st.lists(st.integers(1, 30)), st.integers(1, 60))
def test_groups_hold_each_input_once_and_no_more_than_they_may(lengths, max_tokens) -> None:
    groups = towers.groups_by_length(np.array(lengths, dtype=np.int64), max_tokens)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    in_order = [lengths[i] for group in groups for i in group]
    assert in_order == sorted(lengths)
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[i] for i in group) <= max_tokens
    for group, following in zip(groups, groups[1:]):  # no group that might have held one more
        assert (len(group) + 1) * lengths[following[0]] > max_tokens
