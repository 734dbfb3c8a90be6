from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.evaluation.concepts import concept_scores

IDS = st.lists(st.sampled_from("abcd"), max_size=6)


@given(documents=st.lists(st.tuples(IDS, IDS), max_size=4))
def test_counts_pairs_of_document_and_entity(documents) -> None:
    gold = {(n, id) for n, (ids, _) in enumerate(documents) for id in ids}
    said = {(n, id) for n, (_, ids) in enumerate(documents) for id in ids}
    scores = concept_scores(documents)
    assert scores["precision"] == (len(gold & said) / len(said) if said else None)
    assert scores["recall"] == (len(gold & said) / len(gold) if gold else None)
    if scores["precision"] and scores["recall"]:
        harmonic = 2 / (1 / scores["precision"] + 1 / scores["recall"])
        assert scores["f1"] == pytest.approx(harmonic)


def test_a_mention_of_two_entities_found_by_one() -> None:
    scores = concept_scores([(["D1", "D2"], ["D1"]), ([], [])])
    assert scores == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3)}
