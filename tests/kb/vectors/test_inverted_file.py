from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import VectorIndex
from spacy_pel.kb.vectors import index, inverted_file
from spacy_pel.kb.vectors.faiss_library import write_index
from spacy_pel.kb.vectors.inverted_file import (
    InvertedFile,
    built_inverted_file,
    fitting_kind,
    mapped_inverted_file,
)
from spacy_pel.kb.vectors.matrix import VectorMatrix
from spacy_pel.kb.vectors.recall import chosen_probes, recall

N, DIM = 3000, 24


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


class Example:
    """Clustered rows, three of an entity, an approximate index of them, and queries."""

    def __init__(self, folder: Path) -> None:
        random = np.random.default_rng(0)
        self.clusters = np.sort(random.integers(0, 40, N))
        centres = unit(random.standard_normal((40, DIM)))
        noise = random.standard_normal((N, DIM)) / DIM**0.5
        rows = unit(centres[self.clusters] + 0.5 * noise)
        self.matrix = VectorMatrix(rows.astype(np.float16))
        self.row_entities = (np.arange(N) // 3).astype(np.int32)
        self.path = folder / "index.faiss"
        write_index(built_inverted_file(self.matrix, "SQ8"), self.path)
        probes, self.recall = chosen_probes(
            self.matrix, self.row_entities, mapped_inverted_file(self.path)
        )
        self.settings = {"file": self.path.name, "probes": probes}
        self.queries = unit(rows[::30] + 0.3 * noise[::-30])
        self.exact = VectorIndex(self.matrix, self.row_entities)
        self.index = self.opened()

    def opened(self) -> VectorIndex:
        rows = InvertedFile.opened(self.path, self.settings)
        return VectorIndex(self.matrix, self.row_entities, rows)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    with pytest.MonkeyPatch.context() as patch:  # with a margin so few lists would all be looked at
        patch.setattr("spacy_pel.kb.vectors.recall._MARGIN", 1)
        return Example(tmp_path_factory.mktemp("approximate"))


def test_a_margin_is_added_to_the_lists_that_suffice(example: Example) -> None:
    probes, recall = chosen_probes(
        example.matrix, example.row_entities, mapped_inverted_file(example.path)
    )
    assert probes == min(4 * example.settings["probes"], mapped_inverted_file(example.path).nlist)
    assert min(recall["1"], recall["64"]) >= min(example.recall["1"], example.recall["64"])


@pytest.fixture(autouse=True)
def approximate_also_for_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_FEW_ROWS", 20)


@pytest.mark.parametrize("k", [1, 5, 64])
def test_agrees_with_exact_search(example: Example, k: int) -> None:
    found = example.index.search(example.queries, k)
    truth = example.exact.search(example.queries, k)
    assert min(recall(found, truth).values()) >= 0.99
    same = (found.numbers == truth.numbers).all(axis=1)
    assert same.mean() > 0.8
    np.testing.assert_array_equal(found.scores[same], truth.scores[same])


def test_fewer_lists_than_there_are_suffice(example: Example) -> None:
    assert example.settings["probes"] < mapped_inverted_file(example.path).nlist / 2
    assert min(example.recall["1"], example.recall["64"]) >= 0.995
    assert example.recall["queries"] == 512


def test_alone_equals_together(example: Example) -> None:
    together = example.index.search(example.queries, 20)
    for i in range(0, len(example.queries), 7):
        alone = example.index.search(example.queries[i : i + 1], 20)
        np.testing.assert_array_equal(alone.numbers[0], together.numbers[i])
        np.testing.assert_array_equal(alone.scores[0], together.scores[i])


def masks(example: Example) -> dict[str, np.ndarray]:
    random, n = np.random.default_rng(1), example.row_entities[-1] + 1
    masks = {str(share): random.random(n) < share for share in (0.999, 0.5, 0.05, 0.001)}
    far = np.zeros(n, dtype=bool)  # whole clusters, of which most queries are far
    far[example.row_entities[np.isin(example.clusters, [3, 4, 5])]] = True
    return {**masks, "far": far, "none": np.zeros(n, dtype=bool), "all": np.ones(n, dtype=bool)}


@pytest.mark.parametrize("name", ["0.999", "0.5", "0.05", "0.001", "far", "none", "all"])
def test_of_allowed_entities(example: Example, name: str) -> None:
    allowed = masks(example)[name]
    found = example.index.search(example.queries, 30, allowed)
    truth = example.exact.search(example.queries, 30, allowed)
    np.testing.assert_array_equal(found.numbers >= 0, truth.numbers >= 0)
    assert allowed[found.numbers[found.numbers >= 0]].all()
    if allowed.any():
        assert min(recall(found, truth).values()) >= 0.98


def test_more_is_looked_at_until_there_are_k(example: Example) -> None:
    n_entities = example.row_entities[-1] + 1
    one_list = VectorIndex(
        example.matrix, example.row_entities, InvertedFile(mapped_inverted_file(example.path), 1)
    )
    found = one_list.search(example.queries[:5], n_entities + 3)
    truth = example.exact.search(example.queries[:5], n_entities + 3)
    np.testing.assert_array_equal(found.numbers, truth.numbers)
    np.testing.assert_array_equal(found.scores, truth.scores)


def test_equal_rows_tie_by_number_and_names_do_not_crowd_out() -> None:
    random = np.random.default_rng(2)
    names = np.tile(unit(random.standard_normal((1, 8))), (900, 1))
    others = np.tile(unit(random.standard_normal((60, 8))), (5, 1))
    matrix = VectorMatrix(np.concatenate([names, others]))
    row_entities = np.concatenate([np.full(900, 1000), np.arange(300)])
    rows = InvertedFile(built_inverted_file(matrix, "SQ8"), 4)
    queries = np.concatenate([names[:1], others[:20]])
    found = VectorIndex(matrix, row_entities, rows).search(queries, 15)
    truth = VectorIndex(matrix, row_entities).search(queries, 15)
    assert (found.numbers[1:, :5] == truth.numbers[1:, :5]).all()
    assert found.numbers[0, 0] == 1000 and (found.numbers >= 0).all()


def test_nearest_rows(example: Example) -> None:
    found = example.index.nearest_rows(example.queries, 10)
    truth = example.exact.nearest_rows(example.queries, 10)
    hits = [len(set(a) & set(b)) for a, b in zip(found.tolist(), truth.tolist())]
    assert np.mean(hits) > 9


def test_the_same_rows_make_the_same_file(example: Example, tmp_path: Path) -> None:
    write_index(built_inverted_file(example.matrix, "SQ8"), tmp_path / "again.faiss")
    assert (tmp_path / "again.faiss").read_bytes() == example.path.read_bytes()


@pytest.mark.parametrize("n", [1, 2, 3, 10])
@pytest.mark.parametrize("kind", inverted_file.CODE_BITS)
def test_a_few_rows(n: int, kind: str) -> None:
    rows = unit(np.random.default_rng(3).standard_normal((n, 8)))
    matrix = VectorMatrix(rows)
    vector_index = VectorIndex(
        matrix, np.arange(n), InvertedFile(built_inverted_file(matrix, kind), 1)
    )
    truth = VectorIndex(matrix, np.arange(n)).search(rows, n + 1)
    np.testing.assert_array_equal(vector_index.search(rows, n + 1).numbers, truth.numbers)


def test_the_kind_is_what_memory_has_room_for() -> None:
    rows, gigabyte = 3_000_000, 1 << 30
    assert fitting_kind(rows, 384, 2 * gigabyte) == "SQ8"
    assert fitting_kind(rows, 768, 2 * gigabyte) == "SQ4"
    assert fitting_kind(rows, 384, gigabyte) == "SQ4"
    assert fitting_kind(rows, 384, 500 << 20) == "SQ4"  # nothing is shorter


def test_unreadable_index(tmp_path: Path) -> None:
    (tmp_path / "index.faiss").write_bytes(b"nonsense")
    for name in ("index.faiss", "gone.faiss"):
        with pytest.raises(PelError, match=f"{name}: cannot be read; .*kb verify"):
            InvertedFile.opened(tmp_path / name, {"probes": 1})


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
