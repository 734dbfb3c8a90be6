import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from spacy_pel.errors import PelError
from spacy_pel.kb import VectorIndex
from spacy_pel.kb.vectors import index, matrix
from spacy_pel.kb.vectors.matrix import DTYPES, VectorMatrix, coded

from .test_finders import unit


def brute_force(queries, rows, row_entities, k, allowed=None):
    """Numbers and scores: the best row of every entity, then a sort."""
    numbers, scores = np.full((len(queries), k), -1), np.full((len(queries), k), -np.inf)
    for i, query in enumerate(queries):
        best: dict[int, float] = {}
        for row, entity in zip(rows, row_entities.tolist()):
            if allowed is None or allowed[entity]:
                best[entity] = max(float(np.dot(query, row)), best.get(entity, -np.inf))
        ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:k]
        for rank, pair in enumerate(ranked):
            numbers[i, rank], scores[i, rank] = pair
    return numbers, scores


@st.composite
def searches(draw):
    """Vectors of small integers (exact in float32, so full of ties), entities, and a filter."""
    dim, n_rows = draw(st.integers(1, 5)), draw(st.integers(0, 60))
    n_queries, n_entities = draw(st.integers(0, 6)), draw(st.integers(1, 30))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.integers(1, 4))
    rows = random.integers(-spread, spread + 1, (n_rows, dim)).astype(np.float32)
    queries = random.integers(-spread, spread + 1, (n_queries, dim)).astype(np.float32)
    entities = np.sort(random.integers(0, n_entities, n_rows)).astype(np.int32)
    share = draw(st.sampled_from([None, 0.0, 0.3, 0.7, 1.0]))
    allowed = None if share is None else random.random(30) < share
    return queries, rows, entities, draw(st.integers(1, 40)), allowed


@settings(max_examples=200, deadline=None)
@given(searches(), st.sampled_from(DTYPES), st.integers(1, 40), st.integers(1, 20))
def test_equals_brute_force(search, dtype: str, block_rows: int, sampled: int) -> None:
    """However the rows are stored, and whatever is looked at together."""
    queries, rows, entities, k, allowed = search
    # Products with 127 are exact in float32.
    stored = VectorMatrix(*coded(rows * 127 if dtype == "int8" else rows, dtype))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix, "_BLOCK_SIZE", block_rows * rows.shape[1])
        patch.setattr(matrix, "_BLOCK_ROWS", block_rows)
        patch.setattr(index, "_GROUPS", sampled)
        patch.setattr(index, "_BATCH_SIZE", 2)
        found = VectorIndex(stored, entities).search(queries, k, allowed)
    assert found.numbers.dtype == np.int64 and found.scores.dtype == np.float32
    taken = stored.take(np.arange(len(rows)))
    numbers, scores = brute_force(queries, taken, entities, k, allowed)
    if dtype == "int8":
        np.testing.assert_allclose(found.scores, scores, rtol=1e-4, atol=1e-3)
    else:
        np.testing.assert_array_equal(found.numbers, numbers)
        np.testing.assert_array_equal(found.scores, scores.astype(np.float32))


@given(searches(), st.integers(0, 2**32 - 1))
def test_best_rows_equal_brute_force(search, seed: int) -> None:
    queries, rows, entities, n, allowed = search
    random = np.random.default_rng(seed)
    rows, queries = (x + random.normal(size=x.shape).astype(np.float32) for x in (rows, queries))
    built = VectorIndex.from_vectors(rows, entities)
    scores, found = built.best_rows(queries, n, allowed)
    there = np.arange(len(rows)) if allowed is None else np.flatnonzero(allowed[entities])
    for query, got, best in zip(queries, found, scores):
        wanted = there[np.argsort(-(rows[there] @ query), kind="stable")][:n]
        assert got.tolist() == [*wanted, *[-1] * (n - len(wanted))]
        np.testing.assert_allclose(best[: len(wanted)], rows[wanted] @ query, rtol=1e-4, atol=1e-5)
    lines, wanted = (x.ravel() for x in np.mgrid[: len(queries), :30])
    scores, found = built.best_rows_of(queries, lines, wanted)
    for line, entity, score, row in zip(lines, wanted, scores, found):
        own = np.flatnonzero(entities == entity)
        assert row == (own[np.argmax(rows[own] @ queries[line])] if len(own) else -1)
        expected = rows[row] @ queries[line] if len(own) else -np.inf
        assert score == pytest.approx(expected, abs=1e-4)
    firsts = built.best_rows_of(queries, lines, wanted, first=True)[1].tolist()
    assert firsts == [next(iter(np.flatnonzero(entities == n)), -1) for n in wanted]


def test_scores_near_each_other() -> None:
    """As an untrained encoder's: float32 cannot tell which of these products is the highest."""
    random = np.random.default_rng(6)
    rows, queries = (1 + 1e-4 * unit(random.standard_normal((n, 32))) for n in (4000, 3))
    entities = np.arange(4000) // 4
    built = VectorIndex.from_vectors(rows, entities)
    found = built.search(queries, 10)
    alone = [built.search(query[None], 10).numbers[0].tolist() for query in queries]
    assert found.numbers.tolist() == alone
    _, scores = brute_force(queries, rows, entities, 10)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_vectors_tie_exactly_and_alone_equals_together(dtype: str) -> None:
    random = np.random.default_rng(1)
    # Entity i and entity i + 37 ... share a vector.
    rows = np.tile(unit(random.standard_normal((37, 48))), (5, 1))
    queries = unit(random.standard_normal((45, 48)))
    vector_index = VectorIndex(VectorMatrix(*coded(rows, dtype)), np.arange(len(rows)))
    together = vector_index.search(queries, 12)
    blocks = together.numbers[:, :10].reshape(45, 2, 5)
    np.testing.assert_array_equal(np.diff(blocks, axis=2), 37)
    for i in range(len(queries)):
        alone = vector_index.search(queries[i : i + 1], 12)
        np.testing.assert_array_equal(alone.numbers[0], together.numbers[i])
        np.testing.assert_array_equal(alone.scores[0], together.scores[i])


def test_a_gpu_is_used_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for FAISS's GPU functions: that they are called rightly, no more."""
    import faiss

    calls = []

    def pairwise_distance_gpu(*arguments, metric):
        calls.append((arguments[0], metric))
        return arguments[1] @ arguments[2].T

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "pairwise_distance_gpu", pairwise_distance_gpu, raising=False)
    monkeypatch.setattr(faiss, "StandardGpuResources", lambda: "GPU", raising=False)
    index.gpu.cache_clear()
    random = np.random.default_rng(5)
    rows, queries = unit(random.standard_normal((300, 8))), unit(random.standard_normal((3, 8)))
    found = VectorIndex.from_vectors(rows, np.arange(300)).search(queries, 10)
    np.testing.assert_array_equal(found.numbers, brute_force(queries, rows, np.arange(300), 10)[0])
    assert calls == [("GPU", faiss.METRIC_INNER_PRODUCT)]
    index.gpu.cache_clear()


finite = st.just(0.0) | st.floats(2.0**-60, 2.0**60, width=32) | st.floats(-8, -0.5, width=32)
small_matrices = arrays.arrays(
    np.float32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=8), elements=finite
)


@given(small_matrices)
def test_quantized_is_near_and_stays_as_it_is(rows: np.ndarray) -> None:
    values, scales = coded(rows, "int8")
    assert values.dtype == np.int8 and scales.dtype == np.float32
    again = values * scales[:, None]
    assert (np.abs(again - rows) <= 0.51 * scales[:, None]).all()
    recoded = VectorMatrix(*coded(again, "int8"))
    np.testing.assert_array_equal(recoded.take(np.arange(len(rows))), again)


@pytest.mark.parametrize(
    "queries, k, fault",
    [
        (np.ones((1, 3)), 0, "k is 0"),
        (np.ones((1, 4)), 1, "shape .1, 4. for an index of 3 dimensions"),
        (np.ones(3), 1, "shape .3,."),
        (np.array([[0, np.nan, 0]]), 1, "NaN or infinity"),
        (np.array([[0, 1e300, 0]]), 1, "NaN or infinity"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_bad_queries(queries: np.ndarray, k: int, fault: str) -> None:
    vector_index = VectorIndex.from_vectors(np.eye(3), np.arange(3))
    with pytest.raises(PelError, match=fault):
        vector_index.search(queries, k)


def test_without_faiss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(PelError, match=r'pip install "spacy-pel\[cpu\]"'):
        VectorIndex.from_vectors(np.eye(3), np.arange(3))
