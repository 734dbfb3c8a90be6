from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors
from spacy_pel.kb.vector_writing import EXACT_ROWS, FLOAT32_ROWS
from spacy_pel.kb.vectors import building

from .examples import contents, names_of

N, DIM = 900, 12
ENTITIES = [Entity(f"C{i:04}", f"name {i}") for i in range(N // 3)]
ROW_ENTITIES = np.arange(N) // 3


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    random = np.random.default_rng(0)
    rows = random.standard_normal((N, DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def a_small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_QUERIES", 50)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return build_kb(ENTITIES, tmp_path / "kb").path


def batches(rows: np.ndarray, step: int = 128) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, len(rows), step):
        yield rows[start : start + step], ROW_ENTITIES[start : start + step]


def lists(monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes an approximate index one of lists, as if the rows were many."""
    monkeypatch.setattr("spacy_pel.kb.vectors.building.SCANNED_ROWS", 0)
    return "approximate"


def write(folder: Path, given: Any, **settings: Any) -> KnowledgeBase:
    settings = {"dim": DIM, "fingerprint": "abc", "row_kind": "name", **settings}
    return write_vectors(folder, given, **settings)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("index", ["exact", "approximate", "lists"])
def test_what_is_written_is_found(
    folder: Path, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch, dtype: str, index: str
) -> None:
    index = lists(monkeypatch) if index == "lists" else index
    kb = write(folder, batches(rows), dtype=dtype, index=index)
    about = {"dim": DIM, "dtype": dtype, "index": index, "row_kind": "name", "fingerprint": "abc"}
    assert kb.settings["vectors"].items() >= {**about, "rows": N, "stored_dim": DIM}.items()
    assert {path.name for path in folder.iterdir()} == names_of(kb)
    found = kb.search(rows[::3], 1)
    assert (found.numbers[:, 0] == np.arange(N // 3)).mean() > 0.99
    np.testing.assert_allclose(found.scores, 1, atol=0.01)


@pytest.mark.parametrize(
    "kind, settings", [("PQ4", {"codes", "oversampling"}), ("SQ8", {"probes"})]
)
def test_an_index_says_what_its_recall_is(
    folder: Path, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch, kind: str, settings: set
) -> None:
    if kind == "SQ8":
        lists(monkeypatch)
    kb = write(folder, batches(rows), index="approximate")
    found_by = kb.settings["vectors"]["found_by"]
    assert found_by.keys() == {"file", "kind", "recall", *settings} and found_by["kind"] == kind
    measured = found_by["recall"]
    assert measured.keys() == {"1", "64", "queries"} and measured["queries"] == 50
    assert min(measured["1"], measured["64"]) >= 0.99


@pytest.mark.parametrize("limit, dtype", [(N, "float32"), (N - 1, "float16")])
def test_the_size_decides_by_itself(
    folder: Path, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch, limit: int, dtype: str
) -> None:
    monkeypatch.setitem(EXACT_ROWS, "auto", limit)
    monkeypatch.setitem(FLOAT32_ROWS, "auto", limit)
    kb = write(folder, batches(rows))
    entry = kb.settings["vectors"]
    assert entry["dtype"] == dtype
    assert (entry["found_by"] is not None) == (dtype == "float16")
    written = np.load(folder / entry["file"]["name"])
    np.testing.assert_array_equal(written, rows.astype(dtype))
    assert {path.name for path in folder.iterdir()} == names_of(kb)


@pytest.mark.parametrize("index", ["exact", "approximate", "lists"])
def test_the_same_again_is_the_same(
    folder: Path, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    index = lists(monkeypatch) if index == "lists" else index
    other = build_kb(ENTITIES, folder.with_name("other")).path
    write(folder, batches(rows), index=index).close()
    write(other, batches(rows, step=77), index=index).close()
    assert contents(folder) == contents(other)


@pytest.mark.parametrize(
    "vectors, numbers, settings, fault",
    [
        (np.ones((2, DIM)), [0], {}, r"shape \(2, 12\), expected \(1, 12\)"),
        (np.ones((1, DIM)), [0], {"dim": 13}, r"shape \(1, 12\), expected \(1, 13\)"),
        (np.ones((1, DIM)), [0], {"dtype": "float64"}, "unknown dtype .*; choose auto, float32"),
        (np.ones((1, DIM)), [0], {"index": "hnsw"}, "unknown index 'hnsw'; choose auto"),
        (np.full((1, DIM), np.nan), [0], {}, "NaN"),
        (np.full((1, DIM), 1e5), [0], {"dtype": "float16"}, "too long for float16"),
        (np.ones((1, DIM)), [N // 3], {}, "no entity has the number"),
        (np.ones((1, DIM)), [-1], {}, "no entity has the number"),
        (np.ones((3, DIM)), [0, 2, 1], {}, "entity numbers that descend"),
        (np.ones((0, DIM)), [], {}, "no vectors to write"),
    ],
)
def test_what_cannot_be_written_leaves_the_kb_as_it_was(
    folder: Path, vectors: np.ndarray, numbers: list[int], settings: dict[str, Any], fault: str
) -> None:
    before = contents(folder)
    with pytest.raises(PelError, match=fault):
        write(folder, [(vectors, np.array(numbers, dtype=int))], **settings)
    assert contents(folder) == before


def test_entities_without_vectors_are_counted(
    folder: Path, rows: np.ndarray, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        write(folder, [(rows[:2], np.array([3, 4]))])
    assert "298 of 300 entities have no vector" in caplog.text
