"""KBs whose vectors are stored in fewer numbers than queries have."""

from pathlib import Path

import numpy as np
import pytest

from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.change import change_entities, remove_entities
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.vectors.matrix import Projection, VectorMatrix

from .living import ENTITIES, NameRows, embed, living_kb, name_vector

DIM, WIDTH = NameRows.dim, 5
ROUNDING = {"float32": 1e-6, "float16": 1e-3, "int8": 2e-2}


def lifted(kb: KnowledgeBase, axes: np.ndarray) -> np.ndarray:
    """What is left of the vectors of all names, one by one: their shadow, as long as they were."""
    names = [name for entity in kb.entities(kb.numbers()) for name in entity.names]
    shadows = [axes @ (axes.T @ name_vector(name).astype(float)) for name in names]
    return np.array([shadow / np.linalg.norm(shadow) for shadow in shadows])


def axes_of(kb: KnowledgeBase) -> np.ndarray:
    return kb.vectors.base.projection.axes.astype(float)


def test_the_axes_are_the_principal_ones() -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((50, 8)) * [1, 9, 2, 8, 3, 7, 4, 6] + 1
    projection, share = Projection.principal(VectorMatrix(rows.astype(np.float32)), 3)
    _, values, expected = np.linalg.svd(rows)
    plane = expected[:3].T @ expected[:3]
    np.testing.assert_allclose(projection.axes @ projection.axes.T, plane, atol=1e-5)
    np.testing.assert_allclose(projection.axes.T @ projection.axes, np.eye(3), atol=1e-6)
    assert share == pytest.approx((values[:3] ** 2).sum() / (values**2).sum())


@pytest.mark.parametrize("dtype", ROUNDING)
def test_search_is_that_of_the_lifted_rows(tmp_path: Path, dtype: str) -> None:
    folder = living_kb(tmp_path / "kb", ENTITIES, dtype=dtype, stored_dim=WIDTH)
    kb = KnowledgeBase.open(folder)
    assert (kb.dim, kb.stored_dim, kb.settings["vectors"]["dtype"]) == (DIM, WIDTH, dtype)
    assert 0.6 < kb.settings["vectors"]["kept"] < 1
    rows, places = kb.rows(kb.numbers())
    np.testing.assert_allclose(rows, lifted(kb, axes_of(kb)), atol=ROUNDING[dtype])
    queries = np.random.default_rng(0).standard_normal((40, DIM)).astype(np.float32)
    found = kb.search(queries, len(kb))
    for query, numbers, scores in zip(queries, *found):
        best = np.full(len(kb), -np.inf)
        np.maximum.at(best, places, rows @ query)
        np.testing.assert_allclose(scores, np.sort(best)[::-1], atol=1e-5)
        assert numbers.tolist() == kb.numbers()[np.argsort(-best, kind="stable")].tolist()
        np.testing.assert_array_equal(kb.search(query[None], len(kb)).scores[0], scores)
    embed(folder).close()  # whole vectors take their place
    assert KnowledgeBase.open(folder).stored_dim == DIM and verify(folder) == []


def test_what_joins_later_is_in_the_same_axes(folder: Path) -> None:
    axes = axes_of(embed(folder, stored_dim=WIDTH))
    new = [Entity("X1", "Gout", ("Podagra",)), Entity("X2", "Rest")]
    change_entities(folder, "add", new, NameRows())
    remove_entities(folder, ["C10"])
    changed = KnowledgeBase.open(folder)
    assert changed.stored_dim == WIDTH and verify(folder) == []
    rows, _ = changed.rows(changed.numbers())
    np.testing.assert_allclose(rows, lifted(changed, axes), atol=1e-6)
