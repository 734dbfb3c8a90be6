import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.metrics.linking import (
    average_precision,
    best_nil_threshold,
    concept_scores,
    first_hit_ranks,
    linking_metrics,
    markdown_table,
    metrics_table,
    nil_metrics,
    nil_summary,
)

IDS = st.sampled_from("abcdef")


def naive_metrics(ranks, in_kb, seen, ks):
    rows = list(zip(ranks, in_kb, seen or in_kb))
    groups = {
        "all": list(ranks),
        "in_kb": [rank for rank, known, _ in rows if known],
        "seen": [rank for rank, known, trained in rows if known and trained],
        "unseen": [rank for rank, known, trained in rows if known and not trained],
    }
    if seen is None:
        groups["seen"] = groups["unseen"] = None

    def means(value):
        return {
            name: sum(map(value, group)) / len(group) if group else None
            for name, group in groups.items()
        }

    counts = {name: None if group is None else len(group) for name, group in groups.items()}
    recalls = {f"recall@{k}": means(lambda rank: rank in range(1, k + 1)) for k in ks}
    mrr = means(lambda rank: 1 / rank if rank else 0)
    return {"mentions": counts.pop("all"), **counts, **recalls, "mrr": mrr}


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


# NIL

# Few values, so that scores tie; -inf: no candidate, inf: not linked.
SCORES = st.one_of(
    st.sampled_from([0.1, 0.2, 0.5, -math.inf, math.inf]), st.floats(-1, 1, width=32)
)
MENTIONS = st.lists(st.tuples(SCORES, st.booleans()), min_size=1, max_size=25)


def f1(threshold: float, mentions) -> float:
    said = [score < threshold for score, _ in mentions]
    hits = sum(said_nil and nil for said_nil, (_, nil) in zip(said, mentions))
    return 2 * hits / (sum(said) + sum(nil for _, nil in mentions))


@given(MENTIONS)
def test_no_threshold_is_better(mentions):
    threshold = best_nil_threshold(*zip(*mentions))
    if not any(nil for score, nil in mentions if score < math.inf):
        assert threshold is None
        return
    assert math.isfinite(threshold)
    finite = [score for score, _ in mentions if math.isfinite(score)]
    tried = [*finite, *(np.nextafter(score, math.inf) for score in finite), -1e300]
    best = max(f1(t, mentions) for t in tried)
    assert f1(threshold, mentions) == pytest.approx(best)
    said = sum(score < threshold for score, _ in mentions)  # of equally good ones the lowest
    assert all(
        sum(score < t for score, _ in mentions) >= said
        for t in tried
        if f1(t, mentions) > best - 1e-12
    )


def naive_average_precision(mentions) -> float:
    """Sum over thresholds of precision times the recall gained there."""
    n_nil = sum(nil for _, nil in mentions)
    total = gained = 0.0
    for threshold in sorted({score for score, _ in mentions if score < math.inf}):
        said = [nil for score, nil in mentions if score <= threshold]
        recall = sum(said) / n_nil
        total += sum(said) / len(said) * (recall - gained)
        gained = recall
    return total


@given(MENTIONS)
def test_average_precision_is_the_sum_over_thresholds(mentions):
    found = average_precision(*zip(*mentions))
    if any(nil for _, nil in mentions):
        assert found == pytest.approx(naive_average_precision(mentions))
    else:
        assert found is None


ANSWERS = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.integers(0, 66)), min_size=1, max_size=20
)


@given(ANSWERS)
def test_recall_of_all_classes_is_that_of_the_answers(answers):
    """A mention is one class, its entity or NIL; the linker answers with a list of classes."""
    found = nil_metrics(
        [0.5] * len(answers),
        [said for said, _, _ in answers],
        [rank if in_kb else 0 for _, in_kb, rank in answers],
        [in_kb for _, in_kb, _ in answers],
        decided=True,
    )

    def recall(k: int, candidates_after_nil: bool) -> float:
        hits = 0
        for said_nil, in_kb, rank in answers:
            candidates = ["wrong"] * 70
            if in_kb and rank:
                candidates[rank - 1] = "entity"
            classes = (["NIL"] + candidates * candidates_after_nil) if said_nil else candidates
            hits += ("entity" if in_kb else "NIL") in classes[:k]
        return hits / len(answers)

    assert found["recall@1"] == pytest.approx(recall(1, False)) == pytest.approx(recall(1, True))
    assert found["recall@64"] == pytest.approx(recall(64, False))
    assert found["recall@64_nil_as_candidate"] == pytest.approx(recall(64, True))


def test_what_is_not_defined_is_none():
    no_threshold = nil_metrics([0.5, 0.1], [False] * 2, [1, 0], [True, False], decided=False)
    assert nil_summary(no_threshold).startswith(
        "NIL: 1 mentions; average precision 100.0, precision -"
    )
    assert [no_threshold[name] for name in ("precision", "recall", "f1")] == [None] * 3
    assert (no_threshold["average_precision"], no_threshold["recall@1"]) == (1.0, 0.5)
    none_called = nil_metrics([0.5], [False], [0], [False], decided=True)
    assert (none_called["precision"], none_called["recall"], none_called["f1"]) == (None, 0, 0)
    no_nil = nil_metrics([0.5], [False], [1], [True], decided=True)
    assert (no_nil["average_precision"], no_nil["recall"], no_nil["f1"]) == (None, None, None)
    nothing = nil_metrics([], [], [], [], decided=True)
    assert nothing.pop("gold") == 0 and set(nothing.values()) == {None}
