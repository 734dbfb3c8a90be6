"""The NIL class against a search of all thresholds, and counts by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.evaluation.linking_metrics import (
    average_precision,
    best_nil_threshold,
    nil_metrics,
    nil_summary,
)

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
