from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors
from spacy_pel.kb.vectors import index_building
from spacy_pel.kb.vectors.writing import EXACT_ROWS, FLOAT32_ROWS

from ...conftest import contents
from ..living import names_of

N, DIM = 900, 12
ENTITIES = [Entity(f"C{i:04}", f"name {i}") for i in range(N // 3)]
ROW_ENTITIES = np.arange(N) // 3
ROWS = np.random.default_rng(0).standard_normal((N, DIM)).astype(np.float32)
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A KB whose index is measured by a small sample."""
    monkeypatch.setattr(index_building, "_N_QUERIES", 50)
    return build_kb(ENTITIES, tmp_path / "kb").path


def write(folder: Path, batches: Any = None, step: int = 128, **settings: Any) -> KnowledgeBase:
    places = [slice(start, start + step) for start in range(0, N, step)]
    batches = batches or [(ROWS[some], ROW_ENTITIES[some]) for some in places]
    settings = {"dim": DIM, "fingerprint": "abc", "index_unit": "name", **settings}
    return write_vectors(folder, batches, **settings)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("kind", ["exact", "IVFPQ4", "SQ8"])
def test_what_is_written_is_found(folder: Path, monkeypatch, dtype: str, kind: str) -> None:
    """And the same again is the same."""
    if kind == "SQ8":
        monkeypatch.setattr(index_building, "MAX_CODED_ROWS", 0)
    index = kind if kind == "exact" else "approximate"
    kb = write(folder, dtype=dtype, index=index)
    about = {"dim": DIM, "dtype": dtype, "index": index, "index_unit": "name", "fingerprint": "abc"}
    vectors = kb.settings["vectors"]
    assert vectors.items() >= {**about, "rows": N, "stored_dim": DIM}.items()
    assert {path.name for path in folder.iterdir()} == names_of(kb)
    found = kb.search(ROWS[::3], 1)
    assert (found.numbers[:, 0] == np.arange(N // 3)).mean() > 0.99
    np.testing.assert_allclose(found.scores, 1, atol=0.01)
    if kind != "exact":
        assert vectors["found_by"].keys() == {"file", "kind", "codes", "probes", "recall"}
        assert vectors["found_by"]["kind"] == kind
        measured = vectors["found_by"]["recall"]
        assert measured["queries"] == 50 and min(measured["1"], measured["64"]) >= 0.99
    other = build_kb(ENTITIES, folder.with_name("other")).path
    write(other, step=77, dtype=dtype, index=index).close()
    assert contents(folder) == contents(other)


@pytest.mark.parametrize("limit, dtype", [(N, "float32"), (N - 1, "float16")])
def test_the_size_decides_by_itself(folder: Path, monkeypatch, limit: int, dtype: str) -> None:
    monkeypatch.setitem(EXACT_ROWS, "auto", limit)
    monkeypatch.setitem(FLOAT32_ROWS, "auto", limit)
    entry = write(folder).settings["vectors"]
    assert entry["dtype"] == dtype
    assert (entry["found_by"] is not None) == (dtype == "float16")
    np.testing.assert_array_equal(np.load(folder / entry["file"]["name"]), ROWS.astype(dtype))


@pytest.mark.parametrize(
    "vectors, numbers, settings, fault",
    [
        (np.ones((2, DIM)), [0], {}, r"shape \(2, 12\), expected \(1, 12\)"),
        (np.ones((1, DIM)), [0], {"dim": 13}, r"shape \(1, 12\), expected \(1, 13\)"),
        (np.ones((1, DIM)), [0], {"dtype": "float64"}, "unknown dtype .*; choose auto, float32"),
        (np.ones((1, DIM)), [0], {"stored_dim": 0}, "choose from 1 to 12 of them, not 0"),
        (np.ones((1, DIM)), [0], {"alike": 1}, "choose a cosine such as 0.95"),
        (np.full((1, DIM), np.nan), [0], {}, "NaN"),
        (np.full((1, DIM), 1e5), [0], {"dtype": "float16"}, "too long for float16"),
        (np.ones((1, DIM)), [N // 3], {}, "no entity has the number"),
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
