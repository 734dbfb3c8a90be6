from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.writing.entity_changes import add_entities, remove_entities
from spacy_pel.reading.proxies import proxy_texts
from spacy_pel.tasks.embedding.rows import EncodedRows
from spacy_pel.training.negatives import Batch, MixedNegatives, Row
from spacy_pel.training.stored_pool import StoredPool

from ..towers import MENTIONS, retriever
from .stored import embedded_kb, ranking

ENTITIES = [
    Entity("C0", "Multiple sclerosis", ("MS", "disease of the nerves"), ("Disease",), "myelin"),
    Entity("C1", "Mass spectrometry", ("MS", "MS of ions", "spectrum"), ("Procedure",)),
    Entity("C2", "Mitral stenosis", (), ("Disease",)),
    Entity("C3", "Aspirin", ("fever pain",)),
    Entity("C4", "murmur of the heart"),
    Entity("C5", "patient", ("sample",)),
]
GOLDS = [frozenset({0}), frozenset({1, 0, 3}), frozenset({2}), frozenset({99})]


@pytest.fixture(scope="module", params=["entity", "name"])
def pool(request, tmp_path_factory: pytest.TempPathFactory) -> StoredPool:
    """Of a KB of two segments, from which an entity was removed."""
    linker, folder = retriever(), tmp_path_factory.mktemp("stored") / "kb"
    embedded_kb(folder, ENTITIES[:5], linker, request.param).close()
    add_entities(folder, ENTITIES[5:], EncodedRows(linker, request.param))
    remove_entities(folder, ["C4"])
    kb = KnowledgeBase.open(folder)
    assert len(kb.segments) == 2 and kb.numbers().tolist() == [0, 1, 2, 3, 5]
    return StoredPool(kb, request.param, 0.0)


@pytest.mark.parametrize("n", [0, 1, 2, 4, 9])
def test_hard_rows_are_the_highest_ranked_that_are_not_gold(pool: StoredPool, n: int) -> None:
    linker = retriever()
    vectors = linker.mention_vectors(MENTIONS)
    found = pool.hard_rows(vectors, GOLDS, n)
    for vector, gold, rows in zip(vectors, GOLDS, found, strict=True):
        best = ranking(pool.kb, linker, pool.row_kind, vector)
        assert rows == [row for _, row in best if row.entity not in gold][:n]
        assert all(type(number) is int for row in rows for number in row)


def test_vectors_are_those_of_the_rows_texts(pool: StoredPool) -> None:
    linker, random = retriever(), np.random.default_rng(0)
    rows = pool.random_rows(20, random)  # with repeats
    assert {row.entity for row in rows} == {0, 1, 2, 3, 5}
    entities = pool.kb.entities([row.entity for row in rows])
    texts = [proxy_texts(e, pool.row_kind)[row.name] for e, row in zip(entities, rows)]
    vectors = pool.vectors(rows)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, linker.entity_vectors(texts), atol=1e-5)


def test_nothing_needs_to_be_refreshed(pool: StoredPool) -> None:
    """A sampler's hard negatives are there at once, and at every step."""
    vectors = retriever().mention_vectors(MENTIONS[:2])
    golds = [frozenset({0}), frozenset({1})]
    batch = Batch([Row(0, 0), Row(1, 0)], golds, vectors)
    for _ in range(2):
        rows, targets = MixedNegatives(n=2, p=1)(batch, pool, np.random.default_rng(0))
        for mask, hard in zip(targets.negatives, pool.hard_rows(vectors, golds, 2), strict=True):
            assert {rows[column] for column in np.flatnonzero(mask)} == set(hard)


def test_an_entity_without_vectors_is_an_error(tmp_path: Path) -> None:
    linker = retriever()
    kb = embedded_kb(tmp_path / "kb", ENTITIES, linker, without={"C3"})
    pool = StoredPool(kb, "name", 0.0)
    assert pool.vectors([Row(0, 2), Row(5, 1)]).shape == (2, linker.width)
    with pytest.raises(PelError, match="kb: C3 has no vectors; run: python -m spacy pel kb embed"):
        pool.vectors([Row(0, 2), Row(3, 1), Row(5, 1)])
    hard = pool.hard_rows(linker.mention_vectors(MENTIONS), [frozenset()] * 4, 6)
    assert all({row.entity for row in rows} == {0, 1, 2, 4, 5} for rows in hard)
