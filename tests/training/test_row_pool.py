"""Which rows stand for entities, whatever their vectors are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.reading.proxies import proxy_texts
from spacy_pel.training.negatives import Row
from spacy_pel.training.proxy_pool import ProxyPool
from spacy_pel.training.row_pool import RowPool

from ..towers import retriever

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
    for row_kind, expected in (("name", Row(entity, name)), ("entity", Row(entity, 0))):
        assert RowPool(kb, row_kind, 0.0).positive_rows([mention], [entity], rng) == [expected]


def test_name_dropout_hides_names_of_positives(kb: KnowledgeBase) -> None:
    rng = np.random.default_rng(0)
    all_hidden = RowPool(kb, "name", 1.0)
    assert all_hidden.positive_rows(["MS"], [0], rng) == [Row(0, 0)]
    sometimes = RowPool(kb, "name", 0.3)
    chosen = sometimes.positive_rows(["MS"] * 1000, [0] * 1000, rng)
    assert 0.65 < chosen.count(Row(0, 1)) / 1000 < 0.75
    often = RowPool(kb, "name", 0.6)  # but never the canonical one
    assert set(often.positive_rows(["Multiple sclerosis"] * 50, [0] * 50, rng)) == {Row(0, 0)}


# Whole batches


def row_count(kb: KnowledgeBase, number: int, row_kind: str) -> int:
    return len(proxy_texts(kb.entities([number])[0], row_kind))


def naive_random_rows(kb: KnowledgeBase, row_kind: str, n: int, rng) -> list[Row]:
    """Entity by entity, each looked up by itself."""
    numbers = kb.numbers()
    drawn = numbers[rng.integers(len(numbers), size=n)]
    return [Row(e, int(rng.integers(row_count(kb, e, row_kind)))) for e in drawn.tolist()]


def naive_positive_row(
    kb: KnowledgeBase, row_kind: str, name_dropout: float, surface: str, number: int, rng
) -> Row:
    """One mention's, its entity looked up by itself."""
    if row_kind in ("entity", "title"):
        return Row(number, 0)

    def trigrams(name: str) -> set[str]:
        padded = "  " + name.lower() + " "
        return set(map("".join, zip(padded, padded[1:], padded[2:])))

    names = kb.entities([number])[0].names
    shown = rng.random(len(names)) >= name_dropout
    best, most = 0, -1.0
    for position, name in enumerate(names):
        if shown[position] or position == 0:
            both = trigrams(surface) & trigrams(name)
            likeness = len(both) / len(trigrams(surface) | trigrams(name))
            if likeness > most:
                best, most = position, likeness
    return Row(number, best)


@pytest.mark.parametrize("row_kind", ["entity", "title", "name", "described-name"])
@pytest.mark.parametrize("seed", range(5))
def test_a_batch_has_the_rows_that_are_drawn_one_by_one(
    kb: KnowledgeBase, row_kind: str, seed: int
) -> None:
    """With the same seed, so that trainings are the same as with look-ups of single entities."""
    pool = RowPool(kb, row_kind, 0.4)
    ours, naive = np.random.default_rng(seed), np.random.default_rng(seed)
    for n in (0, 1, 7, 40):
        numbers = np.random.default_rng(n).integers(len(ENTITIES), size=n).tolist()
        surfaces = ["MS", "nerve disease", "sample", "spectra", "aspirin", "zzz", "ms of ion"] * 6
        positives = [
            naive_positive_row(kb, row_kind, 0.4, surface, number, naive)
            for surface, number in zip(surfaces, numbers)
        ]
        assert pool.positive_rows(surfaces[:n], numbers, ours) == positives
        rows = pool.random_rows(n, ours)
        assert rows == naive_random_rows(kb, row_kind, n, naive)
        assert all(type(field) is int for row in rows for field in row)
        assert ours.bit_generator.state == naive.bit_generator.state


@contextmanager
def queries(kb: KnowledgeBase) -> Iterator[list[str]]:
    """What SQLite is asked within the block."""
    asked: list[str] = []
    connections = [segment.store._connection for segment in kb.segments]
    for connection in connections:
        connection.set_trace_callback(asked.append)
    yield asked
    for connection in connections:
        connection.set_trace_callback(None)


@pytest.mark.parametrize(("row_kind", "expected"), [("entity", 0), ("name", 1)])
def test_a_batch_is_one_query(kb: KnowledgeBase, row_kind: str, expected: int) -> None:
    pool, rng = (
        ProxyPool(kb, retriever(), row_kind, *[kb.numbers()] * 2, 0.1),
        np.random.default_rng(0),
    )

    def count(choose: Callable[[], object]) -> int:
        with queries(kb) as asked:
            choose()
        return len(asked)

    assert count(lambda: pool.random_rows(32, rng)) == expected
    assert count(lambda: pool.positive_rows(["MS"] * 9, [0, 1, 2] * 3, rng)) == expected
    assert count(lambda: pool.texts([Row(number, 0) for number in (3, 1, 4, 1)], rng)) == 1
