"""Which entities stay, so that what is taken out is seen in training as often as the whole."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from papers.okb.census import Census, MentionKind, split_statistics
from papers.okb.kept_entities import kept_in_line

TOLERANCE = 0.02


def census(counts: dict[str, int]) -> Census:
    kinds = Counter({MentionKind((id,), f"form of {id}"): n for id, n in counts.items() if n})
    return Census(1, sum(counts.values()), kinds)


def random_split(rng: np.random.Generator, ids: list[str], share: float) -> Census:
    """Mentions of entities of the types ("t...") and others; of a share that is not in train."""
    chosen = [id for id in ids if rng.random() < share]
    return census({id: int(rng.integers(1, 5)) for id in chosen})


def differences(train: Census, split: Census, taken: set[str]) -> list[float]:
    okb, whole = split_statistics(split, train, taken), split_statistics(split, train)
    return [
        abs(okb.mentions_seen - whole.mentions_seen),
        abs(okb.entities_seen - whole.entities_seen),
    ]


def test_shares_come_in_line() -> None:
    rng = np.random.default_rng(3)
    of_types = [f"t{n}" for n in range(300)]
    others = [f"o{n}" for n in range(600)]
    # In train are few of the types and most of the others.
    train = census({**dict.fromkeys(of_types[:80], 2), **dict.fromkeys(others[:450], 2)})
    dev, test = (random_split(rng, of_types + others, 0.5) for _ in range(2))
    all_of_them = set(of_types)
    assert max(differences(train, dev, all_of_them)) > 0.2
    kept = kept_in_line(train, [dev, test], of_types, tolerance=TOLERANCE, seed=0)
    taken = all_of_them - kept
    assert max(differences(train, dev, taken) + differences(train, test, taken)) <= TOLERANCE
    assert kept <= all_of_them and not kept & train.entities  # too many were unseen
    assert 50 < len(kept) < 250
    again = kept_in_line(train, [dev, test], of_types, tolerance=TOLERANCE, seed=0)
    assert again == kept
    assert kept_in_line(train, [dev, test], of_types, tolerance=TOLERANCE, seed=1) != kept


def test_nothing_stays_where_all_is_in_line() -> None:
    train, dev = census({"t1": 1, "o1": 1}), census({"t1": 1, "t2": 1, "o1": 1, "o2": 1})
    assert kept_in_line(train, [dev], {"t1", "t2"}, tolerance=TOLERANCE, seed=0) == set()
    far = census({"t2": 3, "o1": 1})
    assert kept_in_line(train, [far], {"t1", "t2"}, tolerance=1, seed=0) == set()


COUNTS = st.dictionaries(st.sampled_from(["t1", "t2", "t3", "t4", "o1", "o2"]), st.integers(0, 3))


@given(train=COUNTS, dev=COUNTS, test=COUNTS, seed=st.integers(0, 3))
@settings(deadline=None)
def test_it_never_gets_worse_and_no_split_runs_empty(train, dev, test, seed) -> None:
    train, splits = census(train), [census(dev), census(test)]
    of_types = {"t1", "t2", "t3", "t4"}
    kept = kept_in_line(train, splits, of_types, tolerance=TOLERANCE, seed=seed)
    assert kept <= of_types

    def beyond(taken):
        return sum(
            max(0, difference - TOLERANCE)
            for split in splits
            if split_statistics(split, train, taken).mentions
            for difference in differences(train, split, taken)
        )

    for split in splits:
        if split_statistics(split, train, of_types).mentions:
            assert split_statistics(split, train, of_types - kept).mentions
    assert beyond(of_types - kept) <= beyond(of_types) + 1e-9
