from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import VectorIndex
from spacy_pel.kb.vectors import fast_scan, index
from spacy_pel.kb.vectors.faiss_library import imported_faiss, write_index
from spacy_pel.kb.vectors.fast_scan import (
    FAST_SCAN_KIND,
    FastScan,
    built_fast_scan,
    representative_rows,
)
from spacy_pel.kb.vectors.matrix import VectorMatrix
from spacy_pel.kb.vectors.recall import chosen_oversampling, recall

N, DIM = 6000, 24


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


class Example:
    """Clustered rows, three of an entity, their codes, and queries."""

    def __init__(self, folder: Path) -> None:
        random = np.random.default_rng(0)
        self.clusters = np.sort(random.integers(0, 40, N))
        centres = unit(random.standard_normal((40, DIM)))
        noise = random.standard_normal((N, DIM)) / DIM**0.5
        rows = unit(centres[self.clusters] + 0.5 * noise)
        self.matrix = VectorMatrix(rows.astype(np.float16))
        self.row_entities = (np.arange(N) // 3).astype(np.int32)
        codes = built_fast_scan(self.matrix)
        oversampling, self.recall = chosen_oversampling(self.matrix, self.row_entities, codes)
        self.path = folder / "index.faiss"
        write_index(codes, self.path)
        settings = {"file": self.path.name, "kind": FAST_SCAN_KIND, "oversampling": oversampling}
        self.rows = FastScan.opened(self.path, settings)
        self.queries = unit(rows[::60] + 0.3 * noise[::-60])
        self.exact = VectorIndex(self.matrix, self.row_entities)
        self.index = VectorIndex(self.matrix, self.row_entities, self.rows)


class AlikeExample(Example):
    """Entities of nine rows in three bunches, one code a bunch."""

    def __init__(self, folder: Path) -> None:
        random = np.random.default_rng(0)
        bunches = unit(random.standard_normal((N // 3, DIM)))
        noise = random.standard_normal((N, DIM)) / DIM**0.5
        rows = unit(np.repeat(bunches, 3, axis=0) + 0.05 * noise)
        self.clusters = np.repeat(np.arange(60), 100)
        self.matrix = VectorMatrix(rows)
        self.row_entities = np.repeat(np.arange(N // 9 + 1), 9)[:N].astype(np.int32)
        self.coded = representative_rows(self.matrix, self.row_entities, 0.9)
        self.rows = FastScan(built_fast_scan(self.matrix, self.coded), 4)
        self.queries = unit(rows[::60] + 0.3 * noise[::-60])
        self.exact = VectorIndex(self.matrix, self.row_entities)
        self.index = VectorIndex(self.matrix, self.row_entities, self.rows)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_scan, "_SHARE", 1)
        return Example(tmp_path_factory.mktemp("fast_scan"))


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> AlikeExample:
    return AlikeExample(tmp_path_factory.mktemp("alike"))


@pytest.fixture(autouse=True)
def codes_also_for_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_FEW_ROWS", 20)
    monkeypatch.setattr(fast_scan, "_SHARE", 1)


@pytest.mark.parametrize("k", [1, 5, 64])
def test_agrees_with_exact_search(example: Example, k: int) -> None:
    found = example.index.search(example.queries, k)
    truth = example.exact.search(example.queries, k)
    assert example.rows.suits(example.index._enough(k), None)
    assert min(recall(found, truth).values()) >= 0.99
    same = (found.numbers == truth.numbers).all(axis=1)
    assert same.mean() > 0.7
    np.testing.assert_array_equal(found.scores[same], truth.scores[same])


def test_rows_that_stand_for_all(alike: AlikeExample) -> None:
    rows = alike.matrix.take(np.arange(N))
    coded = set(alike.coded.tolist())
    for entity in range(0, alike.row_entities[-1] + 1, 7):
        own = np.flatnonzero(alike.row_entities == entity)
        chosen = [row for row in own.tolist() if row in coded]
        assert ((rows[own] @ rows[chosen].T).max(axis=1) >= 0.9 - 1e-6).all()
        near = rows[chosen] @ rows[chosen].T
        assert (near[~np.eye(len(chosen), dtype=bool)] < 0.9).all()
    assert N // 3 * 0.9 < len(coded) < N // 3 * 1.2
    few = VectorMatrix(np.zeros((3, DIM), dtype=np.float32))  # of no direction, like none
    assert representative_rows(few, np.array([0, 0, 4]), 0.9).tolist() == [0, 1, 2]


@pytest.mark.parametrize("k", [1, 5, 64])
def test_entities_are_found_by_one_row_and_scored_by_all(alike: AlikeExample, k: int) -> None:
    found = alike.index.search(alike.queries, k)
    truth = alike.exact.search(alike.queries, k)
    assert alike.rows.suits(alike.index._enough(k), None)
    assert recall(found, truth)["1"] >= 0.99 and recall(found, truth)["64"] >= 0.95
    everything = alike.exact.search(alike.queries, len(np.unique(alike.row_entities)))
    for numbers, scores, all_numbers, all_scores in zip(*found, *everything):
        expected = dict(zip(all_numbers.tolist(), all_scores.tolist()))
        assert scores.tolist() == [expected[number] for number in numbers.tolist()]
        assert (np.diff(scores) <= 0).all() and len(set(numbers.tolist())) == k


def test_alone_equals_together_with_codes_for_several(alike: AlikeExample) -> None:
    together = alike.index.search(alike.queries, 20)
    for i in range(0, len(alike.queries), 9):
        alone = alike.index.search(alike.queries[i : i + 1], 20)
        for mine, all_ in zip(alone, together):
            np.testing.assert_array_equal(mine[0], all_[i])


@pytest.mark.parametrize("share", [1, 0.5, 0.05])
def test_of_allowed_entities_with_codes_for_several(alike: AlikeExample, share: float) -> None:
    allowed = np.random.default_rng(1).random(alike.row_entities[-1] + 1) < share
    found = alike.index.search(alike.queries, 10, allowed)
    truth = alike.exact.search(alike.queries, 10, allowed)
    assert allowed[found.numbers].all()
    assert recall(found, truth)["1"] >= 0.99 and recall(found, truth)["64"] >= 0.95


def test_nothing_allowed_may_be_near_with_codes_for_several(alike: AlikeExample) -> None:
    rows, n_entities = alike.matrix.take(np.arange(N)), alike.row_entities[-1] + 1
    for query in alike.queries[:5]:
        best = np.full(n_entities, -np.inf)
        np.maximum.at(best, alike.row_entities, rows @ query)
        allowed = best < np.median(best)  # none of these is among the first rows found
        found = alike.index.search(query[None], 3, allowed)
        assert allowed[found.numbers].all() and (found.numbers >= 0).all()


def test_more_than_codes_can_find(alike: AlikeExample) -> None:
    n_entities = int(alike.row_entities[-1]) + 1
    found = alike.index.search(alike.queries[:5], n_entities + 3)
    truth = alike.exact.search(alike.queries[:5], n_entities + 3)
    np.testing.assert_array_equal(found.numbers, truth.numbers)
    np.testing.assert_array_equal(found.scores, truth.scores)


def test_threads_change_nothing(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    faiss = imported_faiss()
    limit = faiss.omp_get_max_threads()
    monkeypatch.setattr(index, "_CELLS", 1 << 12)  # many chunks
    answers = []
    for n_threads in (1, 3):
        faiss.omp_set_num_threads(n_threads)
        answers.append(example.index.search(example.queries, 20))
        assert faiss.omp_get_max_threads() == n_threads
    faiss.omp_set_num_threads(limit)
    for one, three in zip(*answers):
        np.testing.assert_array_equal(one, three)


def test_the_recall_that_was_measured_suffices(example: Example) -> None:
    assert example.recall["1"] >= 0.999 and example.recall["64"] >= 0.99
    assert example.recall["queries"] == 512


def test_alone_equals_together(example: Example) -> None:
    together = example.index.search(example.queries, 20)
    for size in (1, 7, 33):
        for start in range(0, len(example.queries) - size, 13):
            part = example.index.search(example.queries[start : start + size], 20)
            for mine, all_ in zip(part, together):
                np.testing.assert_array_equal(mine, all_[start : start + size])


def test_in_chunks(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = np.arange(N // 3) % 4 > 0
    whole = example.index.search(example.queries, 20, allowed)
    monkeypatch.setattr(fast_scan, "_CELLS", 2000)
    monkeypatch.setattr(index, "_CELLS", 5000)
    chunked = example.index.search(example.queries, 20, allowed)
    np.testing.assert_array_equal(chunked.numbers, whole.numbers)
    np.testing.assert_array_equal(chunked.scores, whole.scores)


def masks(example: Example) -> dict[str, np.ndarray]:
    random, n = np.random.default_rng(1), N // 3
    masks = {str(share): random.random(n) < share for share in (0.999, 0.5, 0.1, 0.001)}
    far = np.zeros(n, dtype=bool)  # whole clusters, of which most queries are far
    far[example.row_entities[np.isin(example.clusters, [3, 4, 5, 6, 7, 8, 9])]] = True
    return {**masks, "far": far, "none": np.zeros(n, dtype=bool), "all": np.ones(n, dtype=bool)}


@pytest.mark.parametrize("name", ["0.999", "0.5", "0.1", "0.001", "far", "none", "all"])
def test_of_allowed_entities(example: Example, name: str) -> None:
    allowed = masks(example)[name]
    for k in (3, 30):
        found = example.index.search(example.queries, k, allowed)
        truth = example.exact.search(example.queries, k, allowed)
        np.testing.assert_array_equal(found.numbers >= 0, truth.numbers >= 0)
        assert allowed[found.numbers[found.numbers >= 0]].all()
        if allowed.any():
            assert recall(found, truth)["1"] >= 0.99
            hits = [np.isin(a, b).mean() for a, b in zip(found.numbers, truth.numbers)]
            assert np.mean(hits) >= 0.98


def test_nothing_of_a_selection_may_be_near(example: Example) -> None:
    """Rows of a cluster are asked for that are not among those near to a query far from them."""
    allowed = np.zeros(N // 3, dtype=bool)
    allowed[example.row_entities[np.isin(example.clusters, range(20))]] = True
    queries = example.queries[-30:]  # of the last clusters
    found = example.index.search(queries, 10, allowed)
    truth = example.exact.search(queries, 10, allowed)
    assert recall(found, truth)["1"] >= 0.96
    assert (found.numbers >= 0).all()


def test_more_is_looked_at_until_there_are_k(example: Example) -> None:
    n_entities = N // 3
    found = example.index.search(example.queries[:5], n_entities + 3)
    truth = example.exact.search(example.queries[:5], n_entities + 3)
    np.testing.assert_array_equal(found.numbers, truth.numbers)
    np.testing.assert_array_equal(found.scores, truth.scores)


def test_equal_rows_tie_by_number_and_names_do_not_crowd_out() -> None:
    random = np.random.default_rng(2)
    names = np.tile(unit(random.standard_normal((1, 8))), (900, 1))
    rows = np.concatenate([names, unit(random.standard_normal((2100, 8)))])
    entities = np.concatenate([np.repeat([5, 3, 9], 300), np.arange(100, 2200)])
    matrix = VectorMatrix(rows)
    vector_index = VectorIndex(matrix, entities, FastScan(built_fast_scan(matrix), 4))
    found = vector_index.search(names[:1], 10)
    assert found.numbers[0, :3].tolist() == [3, 5, 9]
    truth = VectorIndex(matrix, entities).search(names[:1], 10)
    assert np.isin(found.numbers, truth.numbers).mean() >= 0.9


def test_the_same_rows_make_the_same_file(example: Example, tmp_path: Path) -> None:
    write_index(built_fast_scan(example.matrix), tmp_path / "again.faiss")
    assert (tmp_path / "again.faiss").read_bytes() == example.path.read_bytes()


@pytest.mark.parametrize("n", [1, 3, 10, 40, 300])
@pytest.mark.parametrize("dim", [1, 2, 7, 8])
def test_a_few_rows_of_few_dimensions(n: int, dim: int) -> None:
    rows = unit(np.random.default_rng(3).standard_normal((n, dim)))
    matrix = VectorMatrix(rows)
    vector_index = VectorIndex(matrix, np.arange(n), FastScan(built_fast_scan(matrix), 4))
    truth = VectorIndex(matrix, np.arange(n)).search(rows, n + 1)
    np.testing.assert_array_equal(vector_index.search(rows, n + 1).numbers, truth.numbers)
    np.testing.assert_array_equal(vector_index.search(rows, 1).scores, truth.scores[:, :1])


def test_many_rows_are_looked_at_themselves(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_scan, "_SHARE", 0)
    found = example.index.search(example.queries, 64)
    truth = example.exact.search(example.queries, 64)
    np.testing.assert_array_equal(found.numbers, truth.numbers)


def test_unreadable_index(tmp_path: Path) -> None:
    (tmp_path / "index.faiss").write_bytes(b"nonsense")
    for name in ("index.faiss", "gone.faiss"):
        with pytest.raises(PelError, match=f"{name}: cannot be read; .*kb verify"):
            FastScan.opened(tmp_path / name, {"oversampling": 4})


def _search_in_child(example: Example, results) -> None:
    import faiss

    faiss.omp_set_num_threads(1)  # as the pipeline does in its workers
    results.put(example.index.search(example.queries, 5).numbers)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork"
)
def test_after_a_fork(example: Example) -> None:
    truth = example.index.search(example.queries, 5).numbers
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_search_in_child, args=(example, results))
    child.start()
    np.testing.assert_array_equal(results.get(timeout=60), truth)
    child.join()
