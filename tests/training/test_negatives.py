from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.errors import PelError
from spacy_pel.training.negatives import Batch, MixedNegatives, in_batch_negatives, random_negatives
from spacy_pel.training.pool import Row

N_ENTITIES = 9


class FakePool:
    """Entities 0 to 8 of two rows each; the hard ones of a mention are 8, 7, 6 ..."""

    def __init__(self) -> None:
        self.refreshes: list[int] = []
        self.mined = self

    def random_rows(self, n: int, rng: np.random.Generator) -> list[Row]:
        return [Row(int(e), int(rng.integers(2))) for e in rng.integers(N_ENTITIES, size=n)]

    def best_rows(
        self, vectors: np.ndarray, golds: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        ranking = range(N_ENTITIES - 1, -1, -1)
        return [[Row(e, 1) for e in ranking if e not in gold][:n] for gold in golds]

    def refresh_every(self, steps: int) -> None:
        self.refreshes.append(steps)


@st.composite
def samplers(draw):
    """A sampler, and what it is: n, p, in_batch, shared."""
    n, p = draw(st.integers(0, 12)), draw(st.floats(0, 1))
    in_batch, shared = draw(st.booleans()), draw(st.booleans())
    mixed = MixedNegatives(n, p, in_batch=in_batch, shared=shared), (n, p, in_batch, shared)
    plain = random_negatives(n, in_batch, shared), (n, 0, in_batch, shared)
    return draw(st.sampled_from([mixed, plain, (in_batch_negatives(), (0, 0, True, True))]))


gold_sets = st.frozensets(st.integers(0, N_ENTITIES - 1), min_size=1, max_size=4)


@given(samplers(), st.lists(gold_sets, min_size=1, max_size=6), st.data())
def test_rows_and_negatives_are_those_that_were_asked_for(sampler, golds, data) -> None:
    """And a gold entity is never a negative."""
    sample, (n, p, in_batch, shared) = sampler
    drawn = [data.draw(st.tuples(st.sampled_from(sorted(g)), st.integers(0, 1))) for g in golds]
    positives = [Row(*pair) for pair in drawn]
    batch = Batch(positives, golds, np.zeros((len(golds), 4), dtype=np.float32))
    rows, targets = sample(batch, FakePool(), np.random.default_rng(0))

    n_hard = round(p * n)
    n_random = n - n_hard
    pool, rng = FakePool(), np.random.default_rng(0)
    drawn = pool.random_rows(n_random * (1 if shared else len(golds)), rng)
    everything = {*positives, *drawn}
    wanted = []
    for i, hard in enumerate(pool.best_rows(batch.vectors, golds, n_hard)):
        own = drawn if shared else drawn[n_random * i : n_random * (i + 1)]
        wanted.append({*hard, *own})
        everything |= set(hard)
    assert set(rows) == everything and len(rows) == len(everything)
    assert [rows[column] for column in targets.positive] == positives
    for mask, gold, own in zip(targets.negatives, golds, wanted, strict=True):
        expected = {row for row in (everything if in_batch else own) if row.entity not in gold}
        assert {rows[column] for column in np.flatnonzero(mask)} == expected
    assert targets.negatives.dtype == bool and targets.positive.dtype == np.int64


def test_hard_negatives_keep_to_the_refresh_schedule() -> None:
    pool, batch = FakePool(), Batch([Row(0, 0)], [frozenset({0})], np.zeros((1, 4)))
    for sample in (MixedNegatives(n=2, refresh=7), MixedNegatives(n=2, p=0, refresh=5)):
        sample(batch, pool, np.random.default_rng(0))
    assert pool.refreshes == [7]  # without hard ones there is no index


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"n": -1}, "n of a negative sampler is -1; set it to 0 or more"),
        ({"p": 1.5}, "fraction p of hard negatives is 1.5; choose a value from 0"),
        ({"refresh": 0}, "refresh of a negative sampler is 0; set it to 1 or"),
    ],
)
def test_bad_parameters(bad: dict, message: str) -> None:
    with pytest.raises(PelError, match=message):
        MixedNegatives(**bad)
