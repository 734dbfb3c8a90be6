"""Rows that are searched by entity, against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_pel.training.negatives import Row
from spacy_pel.training.row_index import RowIndex

OWNERS = np.repeat([0, 2, 3, 7, 9, 12], [3, 1, 4, 2, 1, 3])
VECTORS = np.random.default_rng(0).standard_normal((len(OWNERS), 8), dtype=np.float32)
QUERIES = np.random.default_rng(1).standard_normal((5, 8), dtype=np.float32)


def ranking(query: np.ndarray) -> list[Row]:
    """The best row of each entity, best entity first."""
    best = []
    for entity in dict.fromkeys(OWNERS.tolist()):
        scores = [float(vector @ query) for vector in VECTORS[entity == OWNERS]]
        best.append((max(scores), Row(entity, int(np.argmax(scores)))))
    return [row for _, row in sorted(best, reverse=True)]


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_best_rows_are_those_of_the_best_entities(n: int) -> None:
    left_out = [
        frozenset(),
        frozenset({0}),
        frozenset({3, 12}),
        frozenset({4}),
        frozenset(range(13)),
    ]
    found = RowIndex(VECTORS, OWNERS).best_rows(QUERIES, left_out, n)
    for query, unwanted, rows in zip(QUERIES, left_out, found, strict=True):
        assert rows == [row for row in ranking(query) if row.entity not in unwanted][:n]


def test_a_search_finds_entities() -> None:
    index, allowed = RowIndex(VECTORS, OWNERS), np.arange(13) % 3 == 0
    for query, numbers in zip(QUERIES, index.search(QUERIES, 4).numbers, strict=True):
        assert numbers.tolist() == [row.entity for row in ranking(query)][:4]
    for query, numbers in zip(QUERIES, index.search(QUERIES, 2, allowed).numbers, strict=True):
        assert numbers.tolist() == [r.entity for r in ranking(query) if allowed[r.entity]][:2]
