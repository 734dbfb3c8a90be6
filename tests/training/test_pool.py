"""Pools of rows: what is drawn, and what is found, against brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from spacy_pel.architectures import encoder_of
from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.linking.retriever import Retriever
from spacy_pel.reading.entity_texts import EntityText
from spacy_pel.reading.proxies import SINGLE_ROWS, proxy_texts
from spacy_pel.training.index import Row, StoredRows
from spacy_pel.training.pool import Pool

from ..towers import MENTIONS, retriever, spread_weights
from .kbs import ENTITIES, EVERYTHING, embedded_kb, encoded_pool, ranking

N_ROWS = [len(entity.names) for entity in ENTITIES]


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return build_kb(ENTITIES, tmp_path_factory.mktemp("pool") / "kb")


@pytest.fixture
def linker() -> Retriever:
    return retriever(shared=False)


# Found


@pytest.mark.parametrize("row_kind", ["entity", "name"])
@pytest.mark.parametrize("searched", [EVERYTHING, np.array([1, 3, 4])])
def test_search_is_brute_force_under_the_present_weights(kb, linker, row_kind, searched) -> None:
    pool = encoded_pool(kb, linker, row_kind, searched)
    vectors = linker.mention_vectors(MENTIONS)
    for _ in range(2):
        found = pool.search(vectors, 3)
        for vector, numbers, scores in zip(vectors, found.numbers, found.scores, strict=True):
            expected = ranking(linker, row_kind, vector, searched)[:3]
            assert numbers.tolist() == [row.entity for _, row in expected]
            np.testing.assert_allclose(scores, [score for score, _ in expected], atol=1e-5)
        spread_weights(encoder_of(linker.entity_tower))
        pool.note_update()


GOLDS = [frozenset({0}), frozenset({1, 0, 3}), frozenset({2}), frozenset({99})]


@pytest.mark.parametrize("row_kind", ["entity", "name"])
@pytest.mark.parametrize("stored", [True, False])
def test_hard_rows_are_the_highest_ranked_that_are_not_gold(
    kb: KnowledgeBase, linker: Retriever, row_kind: str, stored: bool, tmp_path: Path
) -> None:
    if stored:
        kb = embedded_kb(tmp_path / "kb", linker, row_kind)
        pool = Pool(kb, row_kind, 0.0, StoredRows(kb))
    else:
        pool = encoded_pool(kb, linker, row_kind)
    vectors = linker.mention_vectors(MENTIONS)
    for n in (1, 2, 5, 9):
        found = pool.mined.best_rows(vectors, GOLDS, n)
        for vector, gold, rows in zip(vectors, GOLDS, found, strict=True):
            ranked = [row for _, row in ranking(linker, row_kind, vector) if row.entity not in gold]
            assert rows == ranked[:n]
            assert all(type(number) is int for row in rows for number in row)
        pool.note_update()
        pool.refresh_every(9)


def test_stored_vectors_are_those_of_the_rows_texts(linker: Retriever, tmp_path: Path) -> None:
    kb = embedded_kb(tmp_path / "kb", linker, without={"C3"})
    pool = Pool(kb, "name", 0.0, StoredRows(kb))
    rows = [Row(0, 2), Row(5, 1), Row(0, 0), Row(0, 2)]
    texts = [proxy_texts(ENTITIES[row.entity], "name")[row.name] for row in rows]
    vectors = pool.mined.vectors(rows)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, linker.entity_vectors(texts), atol=1e-5)
    with pytest.raises(PelError, match="kb: C3 has no vectors; run: python -m spacy pel kb embed"):
        pool.mined.vectors([Row(0, 2), Row(3, 1)])
    hard = pool.mined.best_rows(linker.mention_vectors(MENTIONS), [frozenset()] * 4, 6)
    assert all({row.entity for row in rows} == {0, 1, 2, 4, 5} for rows in hard)


def test_what_is_mined_and_what_is_searched(kb: KnowledgeBase, linker: Retriever) -> None:
    mined, searched = np.array([0, 3, 4]), np.array([0, 1, 4, 5])
    vectors = linker.mention_vectors(MENTIONS)
    golds = [frozenset({number}) for number in range(4)]
    pool = encoded_pool(kb, linker, searched=searched, mined=mined)
    pool.search(vectors, 4)  # nothing was mined yet, so nothing is encoded for it
    expected = sum(N_ROWS[number] for number in searched)
    assert pool.encoded_rows == expected
    pool.note_update()
    for _ in range(2):  # what both hold is encoded once
        for rows, gold in zip(pool.mined.best_rows(vectors, golds, 6), golds, strict=True):
            assert {row.entity for row in rows} == {0, 3, 4} - gold
        found = pool.search(vectors, 4)
        for vector, numbers in zip(vectors, found.numbers, strict=True):
            best = ranking(linker, "name", vector, searched)
            assert numbers.tolist() == [row.entity for _, row in best]
        expected += sum(N_ROWS[number] for number in np.union1d(mined, searched))
        assert pool.encoded_rows == expected
        pool.note_update()


def test_rows_are_encoded_when_they_are_old_enough(kb: KnowledgeBase, linker: Retriever) -> None:
    pool = encoded_pool(kb, linker)
    vectors = linker.mention_vectors(MENTIONS)
    golds = [frozenset({100})] * len(MENTIONS)
    history, found = [], []
    for _ in range(8):
        pool.refresh_every(3)
        pool.refresh_every(3)  # asking again costs nothing
        history.append(pool.encoded_rows // sum(N_ROWS))
        found.append(pool.mined.best_rows(vectors, golds, 3))
        torch.manual_seed(len(history))
        spread_weights(encoder_of(linker.entity_tower))
        pool.note_update()
    assert history == [1, 1, 1, 2, 2, 2, 3, 3]
    assert found[0] == found[1] == found[2] != found[3]
    for _ in range(2):  # a search wants the weights as they are
        pool.search(vectors, 1)
        assert pool.encoded_rows == 4 * sum(N_ROWS)


def test_a_pool_goes_on_from_a_checkpoint(kb: KnowledgeBase, linker: Retriever) -> None:
    pool = encoded_pool(kb, linker)
    assert not pool.bring_up_to_date() and pool.encoded_rows == 0
    pool.restore(has_index=True, encoded_rows=40)
    assert pool.bring_up_to_date() and pool.encoded_rows == 40
    pool.note_update()
    assert pool.bring_up_to_date() and pool.encoded_rows == 40 + sum(N_ROWS)


# Drawn


@pytest.mark.parametrize("row_kind", ["entity", "name"])
def test_random_rows_are_uniform_over_entities_then_rows(kb, linker, row_kind: str) -> None:
    pool = encoded_pool(kb, linker, row_kind, searched=np.array([0]))
    n = 6000
    rows = pool.random_rows(n, np.random.default_rng(0))
    assert rows == pool.random_rows(n, np.random.default_rng(0))
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
        ("ms", 0, 1),
        ("multiple scleroses", 0, 0),
        ("nerve disease", 0, 2),
        ("spectra", 1, 3),
        ("zzz", 1, 0),  # like none: the canonical one
    ],
)
def test_the_positive_row_is_the_name_most_like_the_mention(
    kb: KnowledgeBase, linker: Retriever, mention: str, entity: int, name: int
) -> None:
    rng = np.random.default_rng(0)
    for row_kind, expected in (("name", Row(entity, name)), ("entity", Row(entity, 0))):
        pool = encoded_pool(kb, linker, row_kind)
        assert pool.positive_rows([mention], [entity], rng) == [expected]


def naive_positive_row(row_kind: str, dropout: float, surface: str, number: int, rng) -> Row:
    def trigrams(name: str) -> set[str]:
        padded = "  " + name.lower() + " "
        return set(map("".join, zip(padded, padded[1:], padded[2:])))

    if row_kind in SINGLE_ROWS:
        return Row(number, 0)
    names = ENTITIES[number].names
    shown = rng.random(len(names)) >= dropout
    likeness = [
        len(trigrams(surface) & trigrams(name)) / len(trigrams(surface) | trigrams(name))
        if position == 0 or shown[position]
        else -1
        for position, name in enumerate(names)
    ]
    return Row(number, likeness.index(max(likeness)))


@pytest.mark.parametrize("row_kind", ["entity", "title", "name", "described-name"])
def test_a_batch_has_the_rows_that_are_drawn_one_by_one(
    kb, linker, row_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same seed, so that trainings are the same as with look-ups of single entities."""
    monkeypatch.setattr("spacy_pel.training.pool.KEPT_RECORDS", 4)
    pool = encoded_pool(kb, linker, row_kind, name_dropout=0.4)
    surfaces = ["MS", "nerve disease", "sample", "spectra", "aspirin", "zzz", "ms of ion"] * 6
    for seed, n in enumerate((0, 1, 7, 40)):
        ours, naive = np.random.default_rng(seed), np.random.default_rng(seed)
        numbers = np.random.default_rng(n).integers(len(ENTITIES), size=n).tolist()
        assert pool.positive_rows(surfaces[:n], numbers, ours) == [
            naive_positive_row(row_kind, 0.4, surface, number, naive)
            for surface, number in zip(surfaces, numbers)
        ]
        drawn = naive.integers(len(ENTITIES), size=n).tolist()
        counts = [len(proxy_texts(ENTITIES[number], row_kind)) for number in drawn]
        expected = [Row(e, int(naive.integers(count))) for e, count in zip(drawn, counts)]
        assert pool.random_rows(n, ours) == expected
        assert ours.bit_generator.state == naive.bit_generator.state


def test_texts_are_those_of_the_rows(kb: KnowledgeBase, linker: Retriever) -> None:
    rng = np.random.default_rng(0)
    rows = [Row(1, 2), Row(0, 0), Row(1, 0), Row(2, 0), Row(1, 2)]
    by_name = encoded_pool(kb, linker, name_dropout=1.0).texts(rows, rng)
    assert by_name == [proxy_texts(ENTITIES[row.entity], "name")[row.name] for row in rows]
    rows = [Row(number, 0) for number in (3, 0, 2, 0)]
    by_entity = encoded_pool(kb, linker, "entity").texts(rows, rng)
    assert by_entity == [proxy_texts(ENTITIES[row.entity], "entity")[0] for row in rows]


def test_name_dropout_hides_names_of_positives_and_aliases_of_texts(kb, linker) -> None:
    rng = np.random.default_rng(0)
    hidden = encoded_pool(kb, linker, "entity", name_dropout=1.0).texts([Row(0, 0)], rng)
    assert hidden == [EntityText("Multiple sclerosis", "Disease", "myelin")]
    texts = encoded_pool(kb, linker, "entity", name_dropout=0.3).texts([Row(0, 0)] * 1000, rng)
    assert 0.65 < sum(text.description.startswith("MS") for text in texts) / 1000 < 0.75
    names = encoded_pool(kb, linker, name_dropout=0.3)
    chosen = names.positive_rows(["MS"] * 1000, [0] * 1000, rng)
    assert 0.65 < chosen.count(Row(0, 1)) / 1000 < 0.75
    canonical = names.positive_rows(["Multiple sclerosis"] * 50, [0] * 50, rng)
    assert set(canonical) == {Row(0, 0)}  # never hidden
