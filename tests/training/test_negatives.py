from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.errors import PelError
from spacy_pel.training.negatives import (
    Batch,
    InBatchNegatives,
    MixedNegatives,
    RandomNegatives,
    Row,
    arrange,
)

N_ENTITIES = 9


class FakePool:
    """Entities 0 to 8 of two rows each; the hard ones of a mention are 8, 7, 6 ..."""

    def __init__(self) -> None:
        self.refreshes: list[int] = []

    def random_rows(self, n: int, rng: np.random.Generator) -> list[Row]:
        return [Row(int(e), int(rng.integers(2))) for e in rng.integers(N_ENTITIES, size=n)]

    def hard_rows(
        self, vectors: np.ndarray, golds: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        assert len(vectors) == len(golds)
        ranking = range(N_ENTITIES - 1, -1, -1)
        return [[Row(e, 1) for e in ranking if e not in gold][:n] for gold in golds]

    def refresh_every(self, steps: int) -> None:
        self.refreshes.append(steps)


def batch_of(golds: Sequence[frozenset[int]], positives: Sequence[Row] | None = None) -> Batch:
    chosen = [Row(min(gold), 0) for gold in golds] if positives is None else positives
    return Batch(chosen, golds, np.zeros((len(golds), 4), dtype=np.float32))


BATCH = batch_of([frozenset({0}), frozenset({1, 2}), frozenset({2})])
gold_sets = st.frozensets(st.integers(0, N_ENTITIES - 1), min_size=1, max_size=4)
samplers = st.one_of(
    st.builds(RandomNegatives, n=st.integers(0, 12), in_batch=st.booleans(), shared=st.booleans()),
    st.builds(InBatchNegatives),
    st.builds(
        MixedNegatives,
        n=st.integers(0, 12),
        p=st.floats(0, 1),
        in_batch=st.booleans(),
        shared=st.booleans(),
    ),
)


@settings(deadline=None)
@given(samplers, st.lists(gold_sets, min_size=1, max_size=6), st.data())
def test_a_gold_is_never_a_negative(sampler, golds, data) -> None:
    positives = [
        Row(data.draw(st.sampled_from(sorted(gold))), data.draw(st.integers(0, 1)))
        for gold in golds
    ]
    batch = batch_of(golds, positives)
    rows, targets = sampler(batch, FakePool(), np.random.default_rng(0))
    assert len(set(rows)) == len(rows)
    assert targets.negatives.shape == (len(golds), len(rows)) and targets.negatives.dtype == bool
    assert targets.positive.dtype == np.int64
    assert [rows[column] for column in targets.positive] == positives
    for mask, gold in zip(targets.negatives, golds, strict=True):
        assert not {rows[column].entity for column in np.flatnonzero(mask)} & gold


@settings(deadline=None)
@given(
    st.lists(gold_sets, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, N_ENTITIES - 1), st.integers(0, 1)), max_size=6),
    st.booleans(),
    st.data(),
)
def test_arranged_is_what_was_asked(golds, common, in_batch, data) -> None:
    batch = batch_of(golds)
    common = [Row(*row) for row in common]
    own_rows = st.lists(st.builds(Row, st.integers(0, N_ENTITIES - 1), st.integers(0, 1)))
    own = [data.draw(own_rows) for _ in golds]
    rows, targets = arrange(batch, common, own, in_batch)
    everything = {*batch.positives, *common, *(row for mine in own for row in mine)}
    assert set(rows) == everything
    for mask, gold, mine in zip(targets.negatives, golds, own, strict=True):
        wanted = everything if in_batch else {*common, *mine}
        expected = {row for row in wanted if row.entity not in gold}
        assert {rows[column] for column in np.flatnonzero(mask)} == expected


def negatives_of(sampler, batch: Batch = BATCH, seed: int = 0) -> list[set[Row]]:
    rows, targets = sampler(batch, FakePool(), np.random.default_rng(seed))
    return [{rows[column] for column in np.flatnonzero(mask)} for mask in targets.negatives]


def test_in_batch_negatives_are_the_other_positives() -> None:
    assert negatives_of(InBatchNegatives()) == [
        {Row(1, 0), Row(2, 0)},
        {Row(0, 0)},  # 2 is another gold of it
        {Row(0, 0), Row(1, 0)},
    ]
    assert negatives_of(InBatchNegatives(), batch_of([frozenset({5})])) == [set()]


def test_random_negatives_are_shared() -> None:
    far = batch_of([frozenset({100}), frozenset({101})])
    first, second = negatives_of(RandomNegatives(n=5), far)
    expected = set(FakePool().random_rows(5, np.random.default_rng(0)))
    assert first == second == expected
    with_batch = negatives_of(RandomNegatives(n=5, in_batch=True), far)
    assert with_batch == [expected | {Row(101, 0)}, expected | {Row(100, 0)}]


FAR = batch_of([frozenset({100}), frozenset({101}), frozenset({102})])


def test_mixed_negatives_of_each_mention() -> None:
    drawn = FakePool().random_rows(6, np.random.default_rng(0))
    hard = {Row(8, 1), Row(7, 1)}
    found = negatives_of(MixedNegatives(n=4, p=0.5, shared=False), FAR)
    assert found == [hard | set(drawn[2 * i : 2 * i + 2]) for i in range(3)]


@pytest.mark.parametrize(("n", "p", "hard"), [(4, 0, 0), (4, 0.5, 2), (4, 1, 4), (3, 0.3, 1)])
def test_a_share_p_of_the_mixed_negatives_is_hard(n: int, p: float, hard: int) -> None:
    far = batch_of([frozenset({100}), frozenset({8})])
    random = set(FakePool().random_rows(n - hard, np.random.default_rng(0)))
    ranked = [Row(e, 1) for e in range(8, -1, -1)]
    first, second = negatives_of(MixedNegatives(n=n, p=p), far)
    assert first == {*ranked[:hard], *random}
    assert second == {*ranked[1 : hard + 1], *(row for row in random if row.entity != 8)}


def test_mixed_negatives_keep_to_the_refresh_schedule() -> None:
    pool = FakePool()
    sampler = MixedNegatives(n=2, refresh=7)
    for _ in range(2):
        sampler(BATCH, pool, np.random.default_rng(0))
    assert pool.refreshes == [7, 7]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomNegatives(n=-1), "n of a negative sampler is -1; it must be 0 or more"),
        (lambda: MixedNegatives(n=-2), "n of a negative sampler is -2; it must be 0 or more"),
        (lambda: MixedNegatives(p=1.5), "share p of hard negatives is 1.5; choose it between 0"),
        (lambda: MixedNegatives(p=-0.1), "share p of hard negatives is -0.1; choose it between"),
        (lambda: MixedNegatives(refresh=0), "refresh of a negative sampler is 0; it must be 1 or"),
    ],
)
def test_bad_parameters(make, message: str) -> None:
    with pytest.raises(PelError, match=message):
        make()
