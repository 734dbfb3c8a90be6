import numpy as np
import pytest

from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.linking import reranker as module
from spacy_pel.models.architectures import encoder_of
from spacy_pel.text.entity_texts import proxy_texts

from ..towers import MENTIONS, pair_score, reranker

ENTITIES = [
    Entity("C0", "Multiple sclerosis", ("MS",), ("Disease",), "Of the nerves."),
    Entity("C1", "Mass spectrometry", ("MS", "mass spectroscopy"), ("Procedure", "Test")),
    Entity("C2", "Mitral stenosis", (), (), "It narrows a valve."),
    Entity("C3", "Aspirin"),
    Entity("C4", "Aspirin"),  # the same in all that is read
]
TEXTS = [proxy_texts(entity, "entity")[0] for entity in ENTITIES]
NUMBERS = np.array([[0, 1, 4, 3], [1, 0, 2, -1], [2, 3, -1, -1], [-1, -1, -1, -1]])

FOUND = np.where(NUMBERS < 0, -np.inf, 0.5 - 0.1 * NUMBERS).astype(np.float32)


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return build_kb(ENTITIES, tmp_path_factory.mktemp("reranker") / "kb")


def naive(ranker, mention, number: int) -> float:
    """One pair by torch alone."""
    if number < 0:
        return -np.inf
    left, right = ranker.reader.mentions([mention]), ranker.reader.entities([TEXTS[number]])
    encoder = encoder_of(ranker.model).eval()
    return pair_score(encoder, ranker.reader.pair(left[0], right[0])).item()


@pytest.mark.parametrize("chunk, retriever_weight", [(256, 3.0), (3, 0.0), (1, 0.0)])
def test_scores_are_those_of_the_pairs_one_by_one(kb, chunk, retriever_weight, monkeypatch) -> None:
    monkeypatch.setattr(module, "BATCH_SIZE", chunk)
    ranker = reranker(retriever_weight=retriever_weight)
    scores = ranker.scores(MENTIONS, NUMBERS, FOUND, kb)
    expected = [[naive(ranker, m, n) for n in row] for m, row in zip(MENTIONS, NUMBERS.tolist())]
    assert scores.dtype == np.float32
    there = NUMBERS >= 0
    weighed = np.array(expected)[there] + retriever_weight * FOUND[there]
    np.testing.assert_allclose(scores[there], weighed, atol=1e-5)
    assert np.isneginf(scores[~there]).all()


def test_what_the_retriever_is_sure_of_is_not_read_again(kb, monkeypatch) -> None:
    """By a softmax of its scores, which are weighed: 0.823, 0.5, 1 (no other candidate)."""
    found = np.array(
        [[0.5, 0.1, -0.1, -0.2], [0.4, 0.4, -9, -np.inf], [0.9] + [-np.inf] * 3, [-np.inf] * 4],
        dtype=np.float32,
    )
    numbers = np.where(np.isfinite(found), NUMBERS, -1)
    ranker, read = reranker(retriever_weight=5.0, sure=0.82), []
    whole = ranker.pairs
    monkeypatch.setattr(ranker, "pairs", lambda *a: (read.extend(a[0]), whole(*a))[1])
    best = np.exp(5 * found[0].astype(float))
    assert 0.82 < best[0] / best.sum() < 0.83
    scores = ranker.scores(MENTIONS, numbers, found, kb)
    assert read == [MENTIONS[1]]
    np.testing.assert_allclose(scores[[0, 2, 3]], 5 * found[[0, 2, 3]])
    ranker.sure = 0.83
    assert ranker.unsure(found).tolist() == [True, True, False, False]
    everything = reranker(retriever_weight=5.0).scores(MENTIONS, numbers, found, kb)
    np.testing.assert_allclose(scores[1], everything[1], atol=1e-5)


def test_the_same_texts_are_read_once_and_score_the_same(kb) -> None:
    ranker = reranker()
    pairs, cells = ranker.pairs(MENTIONS, NUMBERS, kb)
    assert cells[0, 2] == cells[0, 3] and len(pairs) == 8
    assert (cells[NUMBERS < 0] == -1).all() and len(np.unique(cells[NUMBERS >= 0])) == 8
    scores = ranker.scores(MENTIONS, NUMBERS, FOUND, kb)
    assert scores[0, 2] == scores[0, 3] and len(set(scores[0].tolist())) == 3
