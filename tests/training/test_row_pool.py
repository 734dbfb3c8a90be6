"""Which rows stand for entities, whatever their vectors are."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.reading.proxies import proxy_texts
from spacy_pel.training.negatives import Row
from spacy_pel.training.row_pool import RowPool

ENTITIES = [
    Entity("C0", "Multiple sclerosis", ("MS", "disease of the nerves"), ("Disease",), "myelin"),
    Entity("C1", "Mass spectrometry", ("MS", "MS of ions", "spectrum"), ("Procedure",)),
    Entity("C2", "Mitral stenosis", (), ("Disease",), None, ("OMIM:1",)),
    Entity("C3", "Aspirin", ("fever pain",)),
    Entity("C4", "murmur of the heart"),
    Entity("C5", "patient", ("sample",)),
]


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return build_kb(ENTITIES, tmp_path_factory.mktemp("row_pool") / "kb")


@pytest.mark.parametrize("row_kind", ["entity", "name"])
def test_random_rows_are_uniform_over_entities_then_rows(kb: KnowledgeBase, row_kind: str) -> None:
    pool = RowPool(kb, row_kind, 0.0)
    n = 6000
    rows = pool.random_rows(n, np.random.default_rng(0))
    assert rows == pool.random_rows(n, np.random.default_rng(0))
    assert rows != pool.random_rows(n, np.random.default_rng(1))
    expected = {
        Row(number, name): n / len(ENTITIES) / count
        for number, entity in enumerate(ENTITIES)
        for count in [len(proxy_texts(entity, row_kind))]
        for name in range(count)
    }
    assert set(rows) == set(expected)
    chi_square = sum((rows.count(row) - e) ** 2 / e for row, e in expected.items())
    assert chi_square < 2.5 * len(expected)


@pytest.mark.parametrize(
    ("mention", "entity", "name"),
    [
        ("MS", 0, 1),
        ("ms", 0, 1),
        ("multiple scleroses", 0, 0),
        ("nerve disease", 0, 2),
        ("spectra", 1, 3),
        ("zzz", 1, 0),  # like none: the canonical one
        ("Aspirin", 3, 0),
    ],
)
def test_the_positive_row_is_the_name_most_like_the_mention(
    kb: KnowledgeBase, mention: str, entity: int, name: int
) -> None:
    rng = np.random.default_rng(0)
    assert RowPool(kb, "name", 0.0).positive_row(mention, entity, rng) == Row(entity, name)
    assert RowPool(kb, "entity", 0.0).positive_row(mention, entity, rng) == Row(entity, 0)


def test_name_dropout_hides_names_of_positives(kb: KnowledgeBase) -> None:
    rng = np.random.default_rng(0)
    all_hidden = RowPool(kb, "name", 1.0)
    assert all_hidden.positive_row("MS", 0, rng) == Row(0, 0)
    sometimes = RowPool(kb, "name", 0.3)
    chosen = [sometimes.positive_row("MS", 0, rng).name for _ in range(1000)]
    assert 0.65 < chosen.count(1) / 1000 < 0.75
    often = RowPool(kb, "name", 0.6)  # but never the canonical one
    assert {often.positive_row("Multiple sclerosis", 0, rng) for _ in range(50)} == {Row(0, 0)}
