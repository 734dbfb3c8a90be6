"""KBs whose vectors are stored in fewer numbers than queries have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb, vector_writing, write_vectors
from spacy_pel.kb.change import add_entities, remove_entities
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.vector_writing import reduce_vectors
from spacy_pel.kb.vectors.matrix import VectorMatrix, principal_projection

from .examples import ENTITIES, contents
from .living import NameRows, living_kb, name_vector

DIM, WIDTH = NameRows.dim, 5
ROUNDING = {"float32": 1e-6, "float16": 1e-3, "int8": 2e-2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return living_kb(tmp_path / "kb", ENTITIES)


def names_of(kb: KnowledgeBase) -> list[str]:
    return [name for entity in kb.entities(kb.numbers()) for name in entity.names]


def lifted(names: list[str], axes: np.ndarray) -> np.ndarray:
    """What is left of the vectors of names, one by one: their shadow, as long as they were."""
    shadows = [axes @ (axes.T @ name_vector(name).astype(float)) for name in names]
    return np.array([shadow / np.linalg.norm(shadow) for shadow in shadows])


def axes_of(kb: KnowledgeBase) -> np.ndarray:
    return kb.vectors.projection.axes.astype(float)


def test_the_axes_are_the_principal_ones() -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((50, 8)) * [1, 9, 2, 8, 3, 7, 4, 6] + 1
    projection, share = principal_projection(VectorMatrix(rows.astype(np.float32)), 3)
    _, values, expected = np.linalg.svd(rows)
    plane = expected[:3].T @ expected[:3]
    np.testing.assert_allclose(projection.axes @ projection.axes.T, plane, atol=1e-5)
    np.testing.assert_allclose(projection.axes.T @ projection.axes, np.eye(3), atol=1e-6)
    assert share == pytest.approx((values[:3] ** 2).sum() / (values**2).sum())
    again, _ = principal_projection(VectorMatrix(rows.astype(np.float32)), 3)
    np.testing.assert_array_equal(again.axes, projection.axes)


@pytest.mark.parametrize("dtype", ROUNDING)
def test_search_is_that_of_the_lifted_rows(tmp_path: Path, dtype: str) -> None:
    folder = living_kb(tmp_path / "kb", ENTITIES, dtype=dtype)
    kb, share = reduce_vectors(folder, WIDTH)
    assert (kb.dim, kb.stored_dim, kb.settings["vectors"]["dtype"]) == (DIM, WIDTH, dtype)
    assert 0.6 < share < 1
    names = names_of(kb)
    rows, places = kb.rows(kb.numbers())
    expected = lifted(names, axes_of(kb))
    np.testing.assert_allclose(rows, expected, atol=ROUNDING[dtype])
    queries = np.array([name_vector(name) for name in ("gout", "another", "third")])
    found = kb.search(queries, len(kb))
    for query, numbers, scores in zip(queries, found.numbers, found.scores):
        best = np.full(len(kb), -np.inf)
        np.maximum.at(best, places, rows @ query)
        np.testing.assert_allclose(scores, np.sort(best)[::-1], atol=1e-5)
        assert numbers.tolist() == kb.numbers()[np.argsort(-best, kind="stable")].tolist()


def test_a_query_is_answered_by_itself(folder: Path) -> None:
    kb, _ = reduce_vectors(folder, WIDTH)
    queries = np.random.default_rng(0).standard_normal((40, DIM)).astype(np.float32)
    together = kb.search(queries, 4)
    for i, query in enumerate(queries):
        alone = kb.search(query[None], 4)
        np.testing.assert_array_equal(alone.scores[0], together.scores[i])
    assert kb.search(queries[:0], 4).numbers.shape == (0, 4)


@pytest.mark.parametrize("wasted", [50_000, 0])
def test_what_joins_later_is_in_the_same_axes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, wasted: int
) -> None:
    """Also if each change makes the file of vectors anew."""
    monkeypatch.setattr(vector_writing, "WASTED_ROWS", wasted)
    kb, _ = reduce_vectors(folder, WIDTH)
    axes = axes_of(kb)
    add_entities(folder, [Entity("X1", "Gout", ("Podagra",)), Entity("X2", "Rest")], NameRows())
    remove_entities(folder, ["C10"])
    changed = KnowledgeBase.open(folder)
    assert changed.stored_dim == WIDTH and verify(folder) == []
    assert (changed.vectors.added is None) == (wasted == 0)
    expected = lifted(names_of(changed), axes)
    np.testing.assert_allclose(changed.rows(changed.numbers())[0], expected, atol=1e-6)


def test_an_index_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With codes that names share, ever after."""
    monkeypatch.setattr(vector_writing, "WASTED_ROWS", 0)
    folder = living_kb(tmp_path / "kb", ENTITIES, index="approximate")
    reduce_vectors(folder, 4, alike=0.05)[0].close()
    for _ in range(2):
        with KnowledgeBase.open(folder) as kb:
            finder = kb.vectors.filed._finder
            assert finder.finds_entities and kb.settings["vectors"]["alike"] == 0.05
            assert finder._codes.ntotal < kb.settings["vectors"]["rows"]
        assert verify(folder) == []
        if "C10" in kb:
            remove_entities(folder, ["C10"])


def test_names_share_codes_at_any_time(tmp_path: Path) -> None:
    """Also of vectors that were made shorter before; these stay as they are."""
    folder = living_kb(tmp_path / "kb", ENTITIES, index="approximate")
    reduce_vectors(folder, 4)
    before = KnowledgeBase.open(folder)
    kb, share = reduce_vectors(folder, alike=0.05)
    assert kb.stored_dim == before.stored_dim and share == 1.0
    for old, new in zip(before.rows(before.numbers()), kb.rows(kb.numbers())):
        np.testing.assert_array_equal(new, old)
    codes = kb.settings["vectors"]["found_by"]["codes"]
    assert codes == kb.vectors.filed._finder._codes.ntotal < len(old)
    assert verify(folder) == []


@pytest.mark.parametrize(
    "dim, alike, fault",
    [
        (None, None, "give the length of a vector, or --alike, or both"),
        *((4, alike, "choose a cosine such as 0.95") for alike in (0, 1, 1.5, float("nan"))),
        (4, 0.9, "no index of the kind PQ4; reduce it without --alike"),
        *((dim, None, f"choose from 1 to {DIM - 1}") for dim in (0, DIM, DIM + 1, -1)),
    ],
)
def test_a_refused_reduction_changes_nothing(
    folder: Path, dim: int | None, alike: float | None, fault: str
) -> None:
    before = contents(folder)
    with pytest.raises(PelError, match=fault):
        reduce_vectors(folder, dim, alike)
    assert contents(folder) == before


def test_what_cannot_be_reduced(tmp_path: Path, folder: Path) -> None:
    reduce_vectors(folder, WIDTH)
    with pytest.raises(PelError, match="reduced before.*kb embed"):
        reduce_vectors(folder, 2)
    bare = tmp_path / "bare"
    build_kb(ENTITIES, bare).close()
    with pytest.raises(PelError, match="no vectors.*kb embed"):
        reduce_vectors(bare, 2)
    with pytest.raises(PelError, match="kb build"):
        reduce_vectors(tmp_path / "none", 2)
    assert not (tmp_path / "none").exists()


def test_whole_vectors_may_take_their_place(folder: Path) -> None:
    kb, _ = reduce_vectors(folder, WIDTH)
    rows = NameRows().rows(list(kb))
    kb.close()
    whole = write_vectors(folder, [rows], dim=DIM, fingerprint="names", row_kind="name")
    assert whole.stored_dim == whole.dim == DIM and verify(folder) == []
