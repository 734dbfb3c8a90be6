"""The towers: batches and threads change no vector, and caching no gradient."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.linking.retriever import Retriever
from spacy_pel.models.architectures import encoder_of, set_dropout, set_gradient_caching, towers
from spacy_pel.text import token_inputs as reading
from spacy_pel.text.entity_texts import EntityText
from spacy_pel.text.token_inputs import text_inputs

from ...towers import ENTITIES, TEXTS, bert_vector, biencoder


def test_order_is_kept_and_a_batch_changes_no_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    model = biencoder()
    tower, reader = model.get_ref("entity"), Retriever(model)
    rng = np.random.default_rng(0)
    words = " ".join(TEXTS).split()
    texts = [EntityText(" ".join(rng.choice(words, n))) for n in rng.permutation(np.arange(1, 20))]
    tokens = reader.entity_tokens(texts)
    together = tower.predict(text_inputs(tokens))
    assert together.shape == (19, 32) and together.dtype == np.float32
    alone = np.concatenate([tower.predict(text_inputs([t])) for t in tokens])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    monkeypatch.setattr(reading, "CORE_TOKENS", 30)  # many groups
    order = rng.permutation(len(tokens))
    shuffled = tower.predict(text_inputs([tokens[i] for i in order]))
    np.testing.assert_allclose(shuffled, together[order], atol=1e-5)
    expected = bert_vector(encoder_of(tower).eval(), tokens[7]).detach().numpy()
    np.testing.assert_allclose(together[7], expected, atol=1e-5)
    assert tower.predict(text_inputs([])).shape == (0, 32)


@given(st.lists(st.integers(1, 30)), st.integers(1, 60))
def test_groups_hold_each_input_once_and_no_more_than_they_may(
    lengths: list[int], max_tokens: int
) -> None:
    groups = towers.groups_by_length(np.array(lengths, dtype=np.int64), max_tokens)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    in_order = [lengths[i] for group in groups for i in group]
    assert in_order == sorted(lengths)
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[i] for i in group) <= max_tokens
    for group, following in zip(groups, groups[1:]):  # no group that might have held one more
        assert (len(group) + 1) * lengths[following[0]] > max_tokens


def test_threads_change_no_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    model = biencoder()
    set_dropout(model, 0.5)  # which inference has none of
    tower, reader = model.get_ref("entity"), Retriever(model)
    tokens = reader.entity_tokens([EntityText(" ".join(TEXTS[: i % 3 + 1])) for i in range(30)])
    monkeypatch.setattr(reading, "CORE_TOKENS", 40)  # many groups
    alone = tower.predict(text_inputs(tokens))
    torch.set_num_threads(3)
    try:
        np.testing.assert_array_equal(tower.predict(text_inputs(tokens)), alone)
        assert torch.get_num_threads() == 3
        monkeypatch.setattr(towers, "ThreadPoolExecutor", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tower.predict(text_inputs(tokens))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)


def test_gradient_caching_changes_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(towers, "CPU_TOKENS", 30)  # many groups
    gradients, passes = [], []
    for cached in (False, True):
        model = biencoder()
        set_dropout(model, 0.3)  # drops the same when it is computed again
        set_gradient_caching(model, cached)
        transformer, count = encoder_of(model.get_ref("entity")).transformer, []
        transformer.embeddings.register_forward_pre_hook(lambda *_: count.append(1))
        torch.manual_seed(0)
        tokens = Retriever(model).entity_tokens(ENTITIES)
        zeros = [np.zeros((len(t.ids), 32), np.float32) for t in tokens]
        output, backprop = model.get_ref("entity").begin_update(text_inputs(tokens, zeros))
        d_perturbations = backprop(np.random.default_rng(0).normal(size=output.shape))
        grads = [p.grad for p in transformer.parameters() if p.grad is not None]
        gradients.append([output, *d_perturbations, *(g.numpy() for g in grads)])
        passes.append(len(count))
    for kept, again in zip(*gradients, strict=True):
        np.testing.assert_allclose(again, kept, atol=1e-6)
    assert passes[0] > 1 and passes[1] == 2 * passes[0]
