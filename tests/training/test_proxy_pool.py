from __future__ import annotations

import numpy as np
import pytest
import torch

from spacy_pel.architectures import encoder_of
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.linking.retriever import Retriever
from spacy_pel.reading.entity_texts import EntityText
from spacy_pel.reading.proxies import proxy_texts
from spacy_pel.training.negatives import Batch, MixedNegatives, Row
from spacy_pel.training.proxy_pool import ProxyPool

from ..towers import MENTIONS, retriever, spread_weights

ENTITIES = [
    Entity("C0", "Multiple sclerosis", ("MS", "disease of the nerves"), ("Disease",), "myelin"),
    Entity("C1", "Mass spectrometry", ("MS", "MS of ions", "spectrum"), ("Procedure",)),
    Entity("C2", "Mitral stenosis", (), ("Disease",), None, ("OMIM:1",)),
    Entity("C3", "Aspirin", ("fever pain",)),
    Entity("C4", "murmur of the heart"),
    Entity("C5", "patient", ("sample",)),
]
EVERYTHING = np.arange(len(ENTITIES))


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return build_kb(ENTITIES, tmp_path_factory.mktemp("pool") / "kb")


def make_pool(
    kb: KnowledgeBase,
    row_kind: str = "name",
    searched: np.ndarray = EVERYTHING,
    mined: np.ndarray | None = None,
    name_dropout: float = 0.0,
    linker: Retriever | None = None,
) -> ProxyPool:
    own = searched if mined is None else mined
    return ProxyPool(kb, linker or retriever(), row_kind, own, searched, name_dropout)


def ranking(pool: ProxyPool, vector: np.ndarray) -> list[tuple[float, Row]]:
    """Brute force: the best row of each searched entity, best entity first."""
    best = []
    for number in pool.searched.tolist():
        texts = proxy_texts(ENTITIES[number], pool.row_kind)
        scores = [float(pool.retriever.entity_vectors([text])[0] @ vector) for text in texts]
        name = int(np.argmax(scores))
        best.append((scores[name], Row(number, name)))
    return sorted(best, reverse=True)


@pytest.mark.parametrize("row_kind", ["entity", "name"])
@pytest.mark.parametrize("searched", [EVERYTHING, np.array([1, 3, 4])])
def test_search_is_brute_force_under_the_present_weights(
    kb: KnowledgeBase, row_kind: str, searched: np.ndarray
) -> None:
    pool = make_pool(kb, row_kind, searched)
    vectors = pool.retriever.mention_vectors(MENTIONS)
    for _ in range(2):
        found = pool.search(vectors, 3)
        for vector, numbers, scores in zip(vectors, found.numbers, found.scores, strict=True):
            expected = ranking(pool, vector)[:3]
            assert numbers.tolist() == [row.entity for _, row in expected]
            np.testing.assert_allclose(scores, [score for score, _ in expected], atol=1e-5)
        spread_weights(encoder_of(pool.retriever.entity_tower))
        pool.note_update()


def test_the_index_is_encoded_when_it_is_old_enough(kb: KnowledgeBase) -> None:
    pool = make_pool(kb, linker=retriever(shared=False))
    encoded: list[int] = []
    encoder_of(pool.retriever.entity_tower).register_forward_hook(
        lambda module, inputs, output: encoded.append(len(output))
    )
    n_rows = sum(len(entity.names) for entity in ENTITIES)
    history = []
    for _ in range(8):
        pool.refresh_every(3)
        pool.refresh_every(3)  # asking again costs nothing
        history.append(sum(encoded) // n_rows)
        pool.note_update()
    assert history == [1, 1, 1, 2, 2, 2, 3, 3]
    vector = np.ones((1, 32), dtype=np.float32)
    for expected in (4, 4):  # a search wants the weights as they are
        pool.search(vector, 1)
        assert sum(encoded) // n_rows == expected


@pytest.mark.parametrize("row_kind", ["entity", "name"])
def test_hard_rows_are_the_highest_ranked_that_are_not_gold(
    kb: KnowledgeBase, row_kind: str
) -> None:
    pool = make_pool(kb, row_kind, np.array([0, 1, 2, 3, 5]))
    vectors = pool.retriever.mention_vectors(MENTIONS)
    golds = [frozenset({0}), frozenset({1, 0}), frozenset({kb.number("OMIM:1")}), frozenset({4})]
    pool.refresh_every(1)
    for n in (1, 2, 4):
        for vector, gold, rows in zip(
            vectors, golds, pool.hard_rows(vectors, golds, n), strict=True
        ):
            ranked = [row for _, row in ranking(pool, vector) if row.entity not in gold]
            assert rows == ranked[:n]
    assert pool.hard_rows(vectors, golds, 0) == [[], [], [], []]


def test_hard_rows_are_mined_and_the_others_searched(kb: KnowledgeBase) -> None:
    pool = make_pool(kb, mined=np.array([0, 3, 4]), searched=np.array([0, 1, 4, 5]))
    vectors = pool.retriever.mention_vectors(MENTIONS)
    golds = [frozenset({number}) for number in range(4)]
    for rows, gold in zip(pool.hard_rows(vectors, golds, 6), golds, strict=True):
        assert {row.entity for row in rows} == {0, 3, 4} - gold
    for vector, numbers in zip(vectors, pool.search(vectors, 4).numbers, strict=True):
        assert numbers.tolist() == [row.entity for _, row in ranking(pool, vector)]


def test_what_both_indexes_hold_is_encoded_once(kb: KnowledgeBase) -> None:
    mined, searched = np.array([0, 3, 4]), np.array([0, 1, 4, 5])
    pool, alone = make_pool(kb, mined=mined, searched=searched), make_pool(kb, searched=searched)
    n_rows = [len(entity.names) for entity in ENTITIES]
    vectors = pool.retriever.mention_vectors(MENTIONS)
    golds = [frozenset({100})] * len(MENTIONS)
    pool.search(vectors, 4)  # nothing was mined, so the index for it is not encoded
    assert pool.encoded_rows == sum(n_rows[number] for number in searched)
    pool = make_pool(kb, mined=mined, searched=searched)
    expected = 0
    for _ in range(2):
        pool.hard_rows(vectors, golds, 1)
        found = pool.search(vectors, 4)
        expected += sum(n_rows[number] for number in np.union1d(mined, searched))
        assert pool.encoded_rows == expected
        np.testing.assert_array_equal(found.numbers, alone.search(vectors, 4).numbers)
        np.testing.assert_allclose(found.scores, alone.search(vectors, 4).scores, atol=1e-6)
        pool.note_update()
    one = make_pool(kb)
    one.hard_rows(vectors, golds, 1)
    one.search(vectors, 1)
    assert one.encoded_rows == sum(n_rows)


def test_hard_rows_need_no_refresh_before(kb: KnowledgeBase) -> None:
    pool, refreshed = make_pool(kb), make_pool(kb)
    vectors = pool.retriever.mention_vectors(MENTIONS)
    golds = [frozenset({number}) for number in range(4)]
    refreshed.refresh_every(1)
    assert pool.hard_rows(vectors, golds, 3) == refreshed.hard_rows(vectors, golds, 3)
    n_rows = sum(len(entity.names) for entity in ENTITIES)
    pool.refresh_every(1)  # it is new, so nothing is encoded again
    assert pool.encoded_rows == refreshed.encoded_rows == n_rows


def test_the_encoded_rows_go_on_from_a_checkpoint(kb: KnowledgeBase) -> None:
    pool = make_pool(kb)
    assert not pool.bring_up_to_date() and pool.encoded_rows == 0
    pool.restore(has_index=False, encoded_rows=0)
    assert not pool.bring_up_to_date()
    pool.restore(has_index=True, encoded_rows=40)
    assert pool.bring_up_to_date() and pool.encoded_rows == 40
    pool.note_update()
    assert pool.bring_up_to_date()
    assert pool.encoded_rows == 40 + sum(len(entity.names) for entity in ENTITIES)


def test_mixed_negatives_of_a_kb(kb: KnowledgeBase) -> None:
    pool = make_pool(kb)
    vectors = pool.retriever.mention_vectors(MENTIONS[:2])
    golds = [frozenset({0}), frozenset({1})]
    batch = Batch([Row(0, 1), Row(1, 1)], golds, vectors)
    rows, targets = MixedNegatives(n=2, p=1)(batch, pool, np.random.default_rng(0))
    for vector, gold, mask in zip(vectors, golds, targets.negatives, strict=True):
        ranked = [row for _, row in ranking(pool, vector) if row.entity not in gold]
        assert {rows[column] for column in np.flatnonzero(mask)} == set(ranked[:2])


def test_random_rows_come_from_the_whole_kb(kb: KnowledgeBase) -> None:
    rows = make_pool(kb, searched=np.array([0])).random_rows(300, np.random.default_rng(0))
    assert {row.entity for row in rows} == set(EVERYTHING.tolist())


def test_texts_are_those_of_the_rows(kb: KnowledgeBase) -> None:
    rng = np.random.default_rng(0)
    rows = [Row(1, 2), Row(0, 0), Row(1, 0), Row(2, 0), Row(1, 2)]
    by_name = make_pool(kb, name_dropout=1.0).texts(rows, rng)
    assert by_name == [proxy_texts(ENTITIES[row.entity], "name")[row.name] for row in rows]
    rows = [Row(number, 0) for number in (3, 0, 2, 0)]
    by_entity = make_pool(kb, "entity").texts(rows, rng)
    assert by_entity == [proxy_texts(ENTITIES[row.entity], "entity")[0] for row in rows]


def test_name_dropout_hides_aliases_of_texts(kb: KnowledgeBase) -> None:
    rng = np.random.default_rng(0)
    rows = [Row(0, 0), Row(2, 0)]
    hidden = make_pool(kb, "entity", name_dropout=1.0).texts(rows, rng)
    assert hidden == [
        EntityText("Multiple sclerosis", "Disease", "myelin"),
        EntityText("Mitral stenosis", "Disease"),
    ]
    texts = make_pool(kb, "entity", name_dropout=0.3).texts([Row(0, 0)] * 1000, rng)
    shown = [text.description.startswith("MS") for text in texts]
    assert 0.65 < sum(shown) / 1000 < 0.75
    assert len({text.description for text in texts}) == 4


def test_hard_rows_belong_to_the_weights_of_the_last_refresh(kb: KnowledgeBase) -> None:
    pool = make_pool(kb, linker=retriever(shared=False))
    vectors = pool.retriever.mention_vectors(MENTIONS)
    golds = [frozenset({100})] * len(MENTIONS)
    pool.refresh_every(2)
    before = pool.hard_rows(vectors, golds, 3)
    torch.manual_seed(5)
    spread_weights(encoder_of(pool.retriever.entity_tower))
    pool.note_update()
    pool.refresh_every(2)
    assert pool.hard_rows(vectors, golds, 3) == before
    pool.note_update()
    pool.refresh_every(2)
    assert pool.hard_rows(vectors, golds, 3) != before
