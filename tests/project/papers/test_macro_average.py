from __future__ import annotations

import numpy as np
import pytest
from papers.macro_average import averaged_metrics

from spacy_pel.evaluation.linking_metrics import linking_metrics

WORLDS = [  # ranks, in_kb, seen
    ([1, 2, 0, 7], [True, True, False, True], [True, False, False, False]),
    ([1], [True], [True]),
]


@pytest.fixture
def metrics():
    return [linking_metrics(*world) for world in WORLDS]


def test_macro_weighs_worlds_and_micro_mentions(metrics) -> None:
    averages = averaged_metrics(metrics)
    together = linking_metrics(*(np.concatenate(column) for column in zip(*WORLDS)))
    assert averages["evaluations"] == 2
    for name, value in together.items():
        assert averages["micro"][name] == pytest.approx(value), name
    assert averages["macro"]["recall@1"]["all"] == pytest.approx((1 / 4 + 1) / 2)
    assert averages["macro"]["mrr"]["in_kb"] == pytest.approx(((1 + 1 / 2 + 1 / 7) / 3 + 1) / 2)
    assert averages["macro"]["recall@64"]["unseen"] == 1  # the second world has none
    counts = {name: together[name] for name in ("mentions", "in_kb", "seen", "unseen")}
    assert {name: averages["macro"][name] for name in counts} == counts


def test_what_is_unknown_stays_unknown() -> None:
    averages = averaged_metrics([linking_metrics([1, 0], [True, True])] * 2)
    assert averages["macro"]["seen"] is averages["macro"]["recall@1"]["seen"] is None
    assert averages["micro"]["recall@1"]["all"] == 0.5
