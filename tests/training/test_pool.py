from itertools import compress
from pathlib import Path

import numpy as np
import pytest
import torch

from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase
from spacy_pel.models.architectures import Retriever, encoder_of, entity_vectors
from spacy_pel.text.entity_texts import SINGLE_ROWS, EntityText, proxy_texts
from spacy_pel.text.mention_inputs import GoldMention, MentionInContext
from spacy_pel.training.pool import NegativePool, Row, StoredRows

from ..towers import MENTIONS, retriever, spread_weights
from .kbs import ENTITIES, embedded_kb, encoded_pool, ranking

N_ROWS = [len(entity.names) for entity in ENTITIES]


@pytest.fixture
def linker() -> Retriever:
    return retriever(shared=False)


GOLDS = [frozenset({0}), frozenset({1, 0, 3}), frozenset({2}), frozenset({99})]


@pytest.mark.parametrize("index_unit", ["entity", "name"])
@pytest.mark.parametrize("stored", [True, False])
def test_hard_rows_are_the_highest_ranked_that_are_not_gold(
    kb: KnowledgeBase, linker: Retriever, index_unit: str, stored: bool, tmp_path: Path
) -> None:
    if stored:
        kb = embedded_kb(tmp_path / "kb", linker, index_unit)
        pool = NegativePool(kb, index_unit, 0.0, StoredRows(kb))
    else:
        pool = encoded_pool(kb, linker, index_unit)
    pool.refresh_every(1)
    vectors = linker.predict(MENTIONS)
    for n in (1, 2, 5, 9):
        found = pool.mined.best_rows(vectors, GOLDS, n)
        for vector, gold, rows in zip(vectors, GOLDS, found, strict=True):
            ranked = [row for _, row in ranking(linker, index_unit, vector)]
            assert rows == [row for row in ranked if row.entity not in gold][:n]
            assert all(type(number) is int for row in rows for number in row)


def test_stored_vectors_are_those_of_the_rows_texts(linker: Retriever, tmp_path: Path) -> None:
    stored = StoredRows(embedded_kb(tmp_path / "kb", linker, without={"C3"}))
    rows = [Row(0, 2), Row(5, 1), Row(0, 0), Row(0, 2)]
    texts = [proxy_texts(ENTITIES[row.entity], "name")[row.name] for row in rows]
    vectors = stored.of(rows)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, entity_vectors(linker, texts), atol=1e-5)
    with pytest.raises(PelError, match="kb: C3 has no vectors; run: python -m spacy pel kb embed"):
        stored.of([Row(0, 2), Row(3, 1)])
    hard = stored.best_rows(linker.predict(MENTIONS), [frozenset()] * 4, 6)
    assert all({row.entity for row in rows} == {0, 1, 2, 4, 5} for rows in hard)


@pytest.mark.parametrize("index_unit", ["entity", "name"])
def test_what_is_mined_and_what_is_searched(kb, linker: Retriever, index_unit: str) -> None:
    """Searches are brute force under the present weights, and what both hold is encoded once."""
    mined, searched = np.array([0, 3, 4]), np.array([0, 1, 4, 5])
    n_rows = np.array([len(proxy_texts(entity, index_unit)) for entity in ENTITIES])
    vectors = linker.predict(MENTIONS)
    golds = [frozenset({number}) for number in range(4)]
    pool = encoded_pool(kb, linker, index_unit, searched=searched, mined=mined)
    pool.search(vectors, 4)  # nothing was mined yet, so nothing is encoded for it
    expected = n_rows[searched].sum()
    assert pool.encoded == expected
    for _ in range(2):
        spread_weights(encoder_of(linker.get_ref("entity")))
        pool.note_update()
        pool.refresh_every(1)
        for rows, gold in zip(pool.mined.best_rows(vectors, golds, 6), golds, strict=True):
            assert {row.entity for row in rows} == {0, 3, 4} - gold
        found = pool.search(vectors, 4)
        for vector, numbers, scores in zip(vectors, found.numbers, found.scores, strict=True):
            best = ranking(linker, index_unit, vector, searched)
            assert numbers.tolist() == [row.entity for _, row in best]
            np.testing.assert_allclose(scores, [score for score, _ in best], atol=1e-5)
        expected += n_rows[np.union1d(mined, searched)].sum()
        assert pool.encoded == expected


def test_rows_are_encoded_when_they_are_old_enough(kb: KnowledgeBase, linker: Retriever) -> None:
    pool = encoded_pool(kb, linker)
    vectors = linker.predict(MENTIONS)
    history, found = [], []
    for _ in range(8):
        pool.refresh_every(3)
        pool.refresh_every(3)  # asking again costs nothing
        history.append(pool.encoded // sum(N_ROWS))
        found.append(pool.mined.best_rows(vectors, [frozenset()] * len(vectors), 3))
        torch.manual_seed(len(history))
        spread_weights(encoder_of(linker.get_ref("entity")))
        pool.note_update()
    assert history == [1, 1, 1, 2, 2, 2, 3, 3]
    assert found[0] == found[1] == found[2] != found[3]
    for _ in range(2):  # a search wants the weights as they are
        pool.search(vectors, 1)
        assert pool.encoded == 4 * sum(N_ROWS)


def naive_positive_row(index_unit: str, dropout: float, surface: str, number: int, rng) -> Row:
    """The name that is most like the mention by its trigrams; the canonical name is never hidden."""

    def trigrams(name: str) -> set[str]:
        padded = "  " + name.lower() + " "
        return set(map("".join, zip(padded, padded[1:], padded[2:])))

    if index_unit in SINGLE_ROWS:
        return Row(number, 0)
    names, of_surface = ENTITIES[number].names, trigrams(surface)
    shown = rng.random(len(names)) >= dropout
    pairs = [(len(of_surface & t), len(of_surface | t)) for t in map(trigrams, names)]
    scores = [a / b if i == 0 or shown[i] else -1 for i, (a, b) in enumerate(pairs)]
    return Row(number, scores.index(max(scores)))


def naive_text(index_unit: str, dropout: float, row: Row, rng) -> EntityText:
    """Where an entity has one row of all its names, some aliases are hidden."""
    entity = ENTITIES[row.entity]
    if index_unit == "entity":
        shown = rng.random(len(entity.aliases)) >= dropout
        entity = entity._replace(aliases=tuple(compress(entity.aliases, shown)))
    return proxy_texts(entity, index_unit)[row.name]


@pytest.mark.parametrize("index_unit", ["entity", "title", "name", "described-name"])
def test_a_batch_has_the_rows_that_are_drawn_one_by_one(kb, linker, index_unit: str) -> None:
    """Entities are drawn uniformly, then one of their rows."""
    pool = encoded_pool(kb, linker, index_unit, name_dropout=0.4)
    surfaces = ["MS", "nerve disease", "sample", "spectra", "aspirin", "zzz", "ms of ion"] * 6
    for seed, n in enumerate((0, 1, 7, 40)):
        ours, naive = np.random.default_rng(seed), np.random.default_rng(seed)
        numbers = np.random.default_rng(n).integers(len(ENTITIES), size=n).tolist()
        golds = [
            GoldMention(MentionInContext(surface, 0, len(surface)), (number,))
            for surface, number in zip(surfaces, numbers)
        ]
        assert pool.positive_rows(golds, ours) == [
            naive_positive_row(index_unit, 0.4, surface, number, naive)
            for surface, number in zip(surfaces, numbers)
        ]
        drawn = naive.integers(len(ENTITIES), size=n).tolist()
        counts = [len(proxy_texts(ENTITIES[number], index_unit)) for number in drawn]
        expected = [Row(e, int(naive.integers(count))) for e, count in zip(drawn, counts)]
        assert pool.random_rows(n, ours) == expected
        texts = [naive_text(index_unit, 0.4, row, naive) for row in expected]
        assert pool.texts(expected, ours) == texts
        assert ours.bit_generator.state == naive.bit_generator.state
