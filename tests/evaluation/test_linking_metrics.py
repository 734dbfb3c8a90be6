"""Linking metrics against a count by hand."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.evaluation.linking_metrics import (
    concept_scores,
    first_hit_ranks,
    linking_metrics,
    markdown_table,
    metrics_table,
)

IDS = st.sampled_from("abcdef")


def naive_metrics(ranks, in_kb, seen, ks):
    groups = {
        "all": list(ranks),
        "in_kb": [rank for rank, known in zip(ranks, in_kb) if known],
        "seen": None,
        "unseen": None,
    }
    if seen is not None:
        rows = list(zip(ranks, in_kb, seen))
        groups["seen"] = [rank for rank, known, trained in rows if known and trained]
        groups["unseen"] = [rank for rank, known, trained in rows if known and not trained]

    def mean(group, value):
        return sum(map(value, group)) / len(group) if group else None

    result = {
        "mentions" if name == "all" else name: None if group is None else len(group)
        for name, group in groups.items()
    }
    for k in ks:
        result[f"recall@{k}"] = {
            name: mean(group, lambda rank: 1 if rank in range(1, k + 1) else 0)
            for name, group in groups.items()
        }
    result["mrr"] = {
        name: mean(group, lambda rank: 1 / rank if rank else 0) for name, group in groups.items()
    }
    return result


@st.composite
def mentions(draw):
    """Ranks, in_kb flags and seen flags; a mention outside the KB has rank 0."""
    rows = draw(st.lists(st.tuples(st.integers(0, 70), st.booleans(), st.booleans()), max_size=30))
    ranks = [rank if known else 0 for rank, known, _ in rows]
    seen = [trained for *_, trained in rows] if draw(st.booleans()) else None
    return ranks, [known for _, known, _ in rows], seen


@given(mentions(), st.lists(st.integers(1, 70), min_size=1, unique=True))
def test_metrics_equal_a_naive_count(rows, ks):
    metrics = linking_metrics(*rows, ks=ks)
    expected = naive_metrics(*rows, ks)
    assert list(metrics) == list(expected)
    for name, value in expected.items():
        assert metrics[name] == (pytest.approx(value, abs=1e-12))
    assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics


@given(st.lists(st.tuples(st.lists(IDS, unique=True), st.sets(IDS)), max_size=10))
def test_first_hit_is_the_first_gold_candidate(rows):
    ranks = first_hit_ranks([candidates for candidates, _ in rows], [gold for _, gold in rows])
    assert ranks.shape == (len(rows),) and ranks.dtype == np.int64
    for rank, (candidates, gold) in zip(ranks, rows):
        assert not gold & set(candidates[: max(rank - 1, 0)])
        assert candidates[rank - 1] in gold if rank else not gold & set(candidates)


def test_table():
    with pytest.raises(ValueError):
        markdown_table(["", "recall@1"], [["Pb"]])
    metrics = linking_metrics([1, 2, 0, 0], [True, True, True, False], ks=(1, 5))
    assert metrics_table(metrics).splitlines() == [
        "|          |  all | in_kb | seen | unseen |",
        "| -------- | ---: | ----: | ---: | -----: |",
        "| mentions |    4 |     3 |    - |      - |",
        "| recall@1 | 25.0 |  33.3 |    - |      - |",
        "| recall@5 | 50.0 |  66.7 |    - |      - |",
        "| mrr      | 37.5 |  50.0 |    - |      - |",
    ]


@given(st.lists(st.tuples(st.lists(IDS), st.lists(IDS)), max_size=4))
def test_pairs_of_a_document_and_an_entity_are_counted_once(documents) -> None:
    gold = {(n, id) for n, (ids, _) in enumerate(documents) for id in ids}
    said = {(n, id) for n, (_, ids) in enumerate(documents) for id in ids}
    scores = concept_scores(documents)
    assert scores["precision"] == (len(gold & said) / len(said) if said else None)
    assert scores["recall"] == (len(gold & said) / len(gold) if gold else None)
    if scores["precision"] and scores["recall"]:
        harmonic = 2 / (1 / scores["precision"] + 1 / scores["recall"])
        assert scores["f1"] == pytest.approx(harmonic)
