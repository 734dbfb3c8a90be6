from pathlib import Path

import faiss
import numpy as np
import pytest

from spacy_pel.kb import VectorIndex
from spacy_pel.kb.vectors import index, index_building
from spacy_pel.kb.vectors.index import RowFinder
from spacy_pel.kb.vectors.index_building import (
    built_lists,
    chosen_probes,
    recall,
    representative_rows,
)
from spacy_pel.kb.vectors.matrix import VectorMatrix

N, DIM = 3000, 24


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def codes_without_lists(matrix: VectorMatrix, coded: np.ndarray | None) -> faiss.Index:
    codes = faiss.IndexPQFastScan(
        DIM, DIM // 2 if coded is not None else DIM, 4, faiss.METRIC_INNER_PRODUCT
    )
    rows = np.arange(len(matrix)) if coded is None else coded
    codes.train(matrix.take(rows))
    if coded is None:
        codes.add(matrix.take(rows))
        return codes
    numbered = faiss.IndexIDMap(codes)
    numbered.add_with_ids(matrix.take(rows), rows)
    return numbered


class Example:
    """Rows of entities in clusters, an approximate index of them, and queries.

    An entity has three rows anywhere in a cluster. Of "alike" it has nine, in three bunches with a code
    each. Earlier versions wrote "PQ4".
    """

    def __init__(self, kind: str, folder: Path) -> None:
        random = np.random.default_rng(0)
        self.clusters = np.sort(random.integers(0, 40, N))
        centres = unit(random.standard_normal((40, DIM)))
        noise = random.standard_normal((N, DIM)) / DIM**0.5
        rows = unit(centres[self.clusters] + 0.5 * noise)
        self.row_entities = (np.arange(N) // 3).astype(np.int32)
        self.is_alike = kind.startswith("alike")
        if self.is_alike:
            bunches = unit(random.standard_normal((N // 3, DIM)))
            rows = unit(np.repeat(bunches, 3, axis=0) + 0.05 * noise)
            self.row_entities = (np.arange(N) // 9).astype(np.int32)
        self.matrix = VectorMatrix(rows.astype(np.float16))
        kind, coded = kind.split()[-1], None
        if self.is_alike:
            coded = representative_rows(self.matrix, self.row_entities, 0.9)
        if kind == "PQ4":
            made = codes_without_lists(self.matrix, coded)
            found_by, self.recall = {"oversampling": 4}, {"1": 1, "64": 1, "queries": 512}
        else:
            made = built_lists(self.matrix, kind, coded)
            probes, self.recall = chosen_probes(self.matrix, self.row_entities, made, made.nlist)
            found_by = {"probes": probes}
        found_by |= {"kind": kind, "codes": made.ntotal}
        faiss.write_index(made, str(folder / "index.faiss"))
        finder = RowFinder.opened(folder / "index.faiss", found_by, self.matrix)
        self.queries = unit(rows[::30] + 0.3 * noise[::-30])
        self.exact = VectorIndex(self.matrix, self.row_entities)
        self.index = VectorIndex(self.matrix, self.row_entities, finder)


@pytest.fixture(scope="module", params=["IVFPQ4", "alike IVFPQ4", "SQ8", "PQ4", "alike PQ4"])
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Example:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "_MIN_SHARE", 1)
        patch.setattr(index_building, "_MARGIN", 1)  # else all of so few lists would be looked at
        return Example(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(autouse=True)
def approximate_also_for_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_MAX_EXACT_ROWS", 20)
    monkeypatch.setattr(index, "_MIN_SHARE", 1)


@pytest.mark.parametrize("k", [1, 64])
def test_agrees_with_exact_search(example: Example, k: int) -> None:
    assert example.index._depth(k, 1, None) > 0  # rows are found, not all looked at
    assert example.recall["queries"] == 512
    found = example.index.search(example.queries, k)
    for shares in (example.recall, recall(found, example.exact.search(example.queries, k))):
        assert shares["1"] >= 0.99 and shares["64"] >= 0.95
    everything = example.exact.search(example.queries[:9], N)
    for numbers, scores, all_numbers, all_scores in zip(*found, *everything):
        exact = dict(zip(all_numbers.tolist(), all_scores.tolist()))
        assert scores.tolist() == [exact[number] for number in numbers.tolist()]
        assert (np.diff(scores) <= 0).all() and len(set(numbers.tolist())) == k


def test_alone_equals_together_in_any_chunks(example: Example, monkeypatch) -> None:
    together = example.index.search(example.queries, 20)
    monkeypatch.setattr(index, "_CHUNK_SIZE", 5000)
    for size in (1, 7, len(example.queries)):
        for start in range(0, len(example.queries) - size + 1, 13):
            part = example.index.search(example.queries[start : start + size], 20)
            for mine, all_ in zip(part, together):
                np.testing.assert_array_equal(mine, all_[start : start + size])


@pytest.mark.parametrize("name", ["0.999", "0.1", "0.001", "far", "none"])
def test_of_allowed_entities(example: Example, name: str) -> None:
    random, n = np.random.default_rng(1), example.row_entities[-1] + 1
    if name == "far":  # whole clusters, of which most queries are far
        allowed = np.zeros(n, dtype=bool)
        allowed[example.row_entities[np.isin(example.clusters, [3, 4, 5, 6, 7, 8, 9])]] = True
    else:
        allowed = random.random(n) < float(name.replace("none", "0"))
    for k in (3, 30):
        found = example.index.search(example.queries, k, allowed)
        truth = example.exact.search(example.queries, k, allowed)
        np.testing.assert_array_equal(found.numbers >= 0, truth.numbers >= 0)
        assert allowed[found.numbers[found.numbers >= 0]].all()
        if allowed.any():
            assert recall(found, truth)["1"] >= 0.99
            hits = [np.isin(a, b).mean() for a, b in zip(found.numbers, truth.numbers)]
            assert np.mean(hits) >= (0.95 if example.is_alike else 0.98)


def test_more_is_looked_at_until_there_are_k(example: Example) -> None:
    k = int(example.row_entities[-1]) + 4
    found = example.index.search(example.queries[:5], k)
    truth = example.exact.search(example.queries[:5], k)
    np.testing.assert_array_equal(found.numbers, truth.numbers)
    np.testing.assert_array_equal(found.scores, truth.scores)


def test_rows_that_stand_for_all() -> None:
    random = np.random.default_rng(0)
    bunches = np.repeat(unit(random.standard_normal((300, DIM))), 3, axis=0)
    rows = unit(bunches + 0.05 * random.standard_normal((900, DIM)) / DIM**0.5)
    entities = np.arange(900) // 9
    coded = representative_rows(VectorMatrix(rows), entities, 0.9)
    assert 270 < len(coded) < 360
    for entity in range(100):
        own = np.flatnonzero(entities == entity)
        chosen = np.intersect1d(own, coded)
        assert ((rows[own] @ rows[chosen].T).max(axis=1) >= 0.9 - 1e-6).all()
        near = rows[chosen] @ rows[chosen].T
        assert (near[~np.eye(len(chosen), dtype=bool)] < 0.9).all()
    none = VectorMatrix(np.zeros((3, DIM), dtype=np.float32))  # of no direction, like none
    assert representative_rows(none, np.array([0, 0, 4]), 0.9).tolist() == [0, 1, 2]


def finder_of(matrix: VectorMatrix, kind: str) -> RowFinder:
    return RowFinder(built_lists(matrix, kind), 16, len(matrix))


@pytest.mark.parametrize("kind", ["IVFPQ4", "SQ8"])
def test_equal_rows_tie_by_number_and_names_do_not_crowd_out(kind: str) -> None:
    random = np.random.default_rng(2)
    names = np.tile(unit(random.standard_normal((1, 8))), (900, 1))
    matrix = VectorMatrix(np.concatenate([names, unit(random.standard_normal((2100, 8)))]))
    entities = np.concatenate([np.repeat([3, 5, 9], 300), np.arange(100, 2200)])
    found = VectorIndex(matrix, entities, finder_of(matrix, kind)).search(names[:1], 10)
    truth = VectorIndex(matrix, entities).search(names[:1], 10)
    assert found.numbers[0, :3].tolist() == [3, 5, 9]
    assert np.isin(found.numbers, truth.numbers).mean() >= 0.9


@pytest.mark.parametrize("n, dim", [(1, 8), (3, 1), (40, 7), (300, 8)])
@pytest.mark.parametrize("kind", ["IVFPQ4", "SQ8"])
def test_a_few_rows_of_few_dimensions(n: int, dim: int, kind: str) -> None:
    rows = unit(np.random.default_rng(3).standard_normal((n, dim)))
    matrix = VectorMatrix(rows)
    truth = VectorIndex(matrix, np.arange(n)).search(rows, n + 1)
    found = VectorIndex(matrix, np.arange(n), finder_of(matrix, kind))
    np.testing.assert_array_equal(found.search(rows, n + 1).numbers, truth.numbers)
    assert found.search(rows[:1], 1).numbers.shape == (1, 1)
