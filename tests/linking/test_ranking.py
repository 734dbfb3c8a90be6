import re
from pathlib import Path

import numpy as np
import pytest

from spacy_pel import models
from spacy_pel.curation.learn_names import learn_acronyms
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.kb.vectors.index import Candidates
from spacy_pel.kb.vectors.writing import write_vectors
from spacy_pel.linking.ordering import Ordered, RankingInput, sure_owners
from spacy_pel.linking.ranking import (
    CANDIDATE_FEATURES,
    Features,
    Ranking,
    compare,
    features_of,
    learnt_priors,
)
from spacy_pel.models.ranker import fitted_ranker
from spacy_pel.text.mention_inputs import DocumentContext, MentionInContext

from ..conftest import ENTITIES
from ..rankings import N_CANDIDATE, N_MENTION, ranking_by_score

LABELS = ["A", "b", "A", "A", "b"]
SURFACES = ["ms", "RA", "Head-pain", "multiple  sclerosis", "nothing"]
N = len(ENTITIES)


def mentions_in(document: DocumentContext | None) -> list[MentionInContext]:
    return [MentionInContext(f"a {s} b", 2, 2 + len(s), document) for s in SURFACES]


def found(seed: int = 0) -> Candidates:
    rng = np.random.default_rng(seed)
    scores = -np.sort(-rng.random((len(SURFACES), N)).astype(np.float32), axis=1)
    return Candidates(np.array([rng.permutation(N) for _ in SURFACES]), scores)


def dice(a: str, b: str) -> float:
    """Of trigrams with an edge, the second text's counted as often as they stand there."""

    def trigrams(text: str) -> list[str]:
        words = re.sub(r"[^a-z0-9]+", " ", text.lower())
        return [f"##{words}#"[i : i + 3] for i in range(len(words) + 1)]

    shared = sum(trigram in trigrams(a) for trigram in trigrams(b))
    return 2 * shared / (len(trigrams(a)) + len(trigrams(b)))


def test_features_against_plain_python(whole_kb: KnowledgeBase) -> None:
    candidates = found()
    looked = features_of(
        LABELS, compare(whole_kb, RankingInput(mentions_in(DocumentContext()), candidates))
    )
    assert looked.candidates.shape == (5, N, N_CANDIDATE - 1)
    assert looked.mentions.shape == (5, N_MENTION - 1) and looked.present.all()
    for i, surface in enumerate(SURFACES):
        for j, number in enumerate(candidates.numbers[i].tolist()):
            names, (score, behind, rank, like, *_) = ENTITIES[number].names, looked.candidates[i, j]
            own = candidates.scores[i]
            assert (score, behind) == pytest.approx((own[j], own[0] - own[j]), abs=1e-6)
            assert rank == pytest.approx(np.log(1 + j))
            assert like == pytest.approx(max(dice(surface, name) for name in names), abs=1e-6)
            exact = any(dice(surface, name) >= 1 for name in names)
            assert (
                looked.candidates[i, j, list(CANDIDATE_FEATURES).index("mention is a name")]
                == exact
            )
            assert looked.types[i][j] == ENTITIES[number].types


def test_senses_are_told_by_counts_and_by_canonical_names(
    bare_kb: KnowledgeBase, tmp_path: Path
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("mass spectrometry (MS)\nmass spectrometry (MS)\n", "utf8")
    learn_acronyms(bare_kb.path, [str(texts)])
    rows, owners = np.random.default_rng(0).normal(size=(14, 4)), np.repeat(np.arange(N), 2)
    about = {"dim": 4, "fingerprint": "f", "index_unit": "name"}
    kb = write_vectors(bare_kb.path, [(rows, owners)], **about)
    candidates, vectors = found(), rows[[5, 4, 3, 2, 1]].astype(np.float32)
    looked = features_of(
        LABELS, compare(kb, RankingInput(mentions_in(None), candidates, vectors=vectors))
    )
    for i, surface in enumerate(SURFACES):
        by_first = rows[::2][candidates.numbers[i]] @ vectors[i]
        prior, first, behind = looked.candidates[i, :, 16:19].T
        np.testing.assert_allclose(first, by_first, rtol=1e-4)
        np.testing.assert_allclose(behind, by_first.max() - by_first, atol=1e-5)
        share = np.where(candidates.numbers[i] == 1, 2.5 / 3, 0.5 / 3)  # of two owners
        np.testing.assert_allclose(prior, np.log(share) if surface == "ms" else 0.0, rtol=1e-6)
        names = (ENTITIES[n].names for n in candidates.numbers[i])
        own = np.array([any(dice(surface, name) >= 1 for name in of_one) for of_one in names])
        shares = np.where(own, np.exp(prior), 0) / max(np.exp(prior)[own].sum(), 1e-9)
        expected = np.log(shares, where=own & (own.sum() > 1), out=np.zeros(N))
        np.testing.assert_allclose(looked.candidates[i, :, -1], expected, atol=1e-6)
    assert looked.mentions[:, 8].tolist() == pytest.approx([np.log(3), 0, 0, 0, 0])


def test_senses_that_are_no_entity_make_links_less_probable(
    bare_kb: KnowledgeBase, tmp_path: Path
) -> None:
    def ordered() -> Ordered:
        given = RankingInput(mentions_in(None), found())
        return ranking_by_score().ordered(KnowledgeBase.open(bare_kb.path), LABELS, given)

    before = ordered()
    (tmp_path / "texts.txt").write_text("right atrium (RA)\n" + "room air (RA)\n" * 6)
    learn_acronyms(bare_kb.path, [str(tmp_path / "texts.txt")])
    after = ordered()
    kept = np.ones((len(SURFACES), 1))
    kept[SURFACES.index("RA")] = 1 - 6 / (6 + 1.5 + 0.5)  # "RA" has two owners
    np.testing.assert_array_equal(after.order, before.order)
    np.testing.assert_allclose(after.probabilities, before.probabilities * kept, rtol=1e-5)
    np.testing.assert_allclose(after.in_kb, before.in_kb * kept[:, 0], rtol=1e-5)
    place = SURFACES.index("RA")
    assert sorted(set(after.evidence.texts[place].tolist())) == [0, 1]
    assert set(after.evidence.all_texts[place].tolist()) == {7}


def test_a_name_with_a_sense_that_is_no_entity_has_no_sure_owner(bare_kb, tmp_path: Path) -> None:
    def sure() -> list[bool]:
        kb = KnowledgeBase.open(bare_kb.path)
        numbers = np.array([[kb.number("C07")]] * 2)
        mentions = [MentionInContext(name, 0, len(name)) for name in ("kidney", "Kd")]
        return sure_owners(kb, mentions, numbers)[:, 0].tolist()

    (tmp_path / "texts.txt").write_text("kidney (Kd)\n")
    learn_acronyms(bare_kb.path, [str(tmp_path / "texts.txt")])
    assert sure() == [True, True]
    (tmp_path / "texts.txt").write_text("kidney (Kd)\nknown dose (Kd)\n")
    learn_acronyms(bare_kb.path, [str(tmp_path / "texts.txt")])
    assert sure() == [True, False]


def test_what_others_of_the_document_mean_counts(whole_kb: KnowledgeBase) -> None:
    numbers = np.array([[0, 1, 2]] * 3)
    candidates = Candidates(numbers, np.tile(np.float32([0.9, 0.8, 0.7]), (3, 1)))
    one, other = DocumentContext(), DocumentContext()
    surfaces = [("x", one), ("y", one), ("x", other)]
    mentions = [MentionInContext(text, 0, 1, document) for text, document in surfaces]
    features = features_of("AAA", compare(whole_kb, RankingInput(mentions, candidates)))
    place = list(CANDIDATE_FEATURES).index("another mention means it")
    assert features.candidates[:, :, place].tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_missing_candidates_have_no_chance(whole_kb: KnowledgeBase) -> None:
    numbers, scores = np.full((2, 20), -1), np.full((2, 20), -np.inf, np.float32)
    numbers[0, 0], scores[0, 0] = 3, 0.5
    given = Candidates(numbers, scores)
    found = RankingInput(mentions_in(None)[:2], given)
    order, chances, in_kb, _ = ranking_by_score(4.0, 2.0).ordered(whole_kb, "AA", found)
    assert order[0, 0] == 0 and np.nansum(chances[1]) == 0
    assert in_kb.tolist() == pytest.approx([0.5, 0.0])  # 4 * 0.5 against 2


def test_a_ranker_learns_what_tells_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.ranker, "_MIN_STEPS", 600)  # as outside the tests
    rng, n = np.random.default_rng(0), 2000
    candidates = rng.normal(size=(n, 6, 3)).astype(np.float32)
    there = np.arange(6) < rng.integers(2, 7, n)[:, None]
    right = np.zeros((n, 6), bool)
    best = np.where(there, candidates[..., 1], -np.inf).argmax(axis=1)  # the second feature tells
    known = rng.random(n) < 0.7
    right[np.arange(n), best] = known
    mentions = np.column_stack([known, rng.random(n)]).astype(np.float32)
    ranker = fitted_ranker(candidates, mentions, there, right)
    chances = ranker.probabilities(candidates, mentions, there)
    assert (chances[:, :-1].argmax(axis=1)[known] == best[known]).mean() > 0.97
    assert ((chances[:, -1] < 0.5) == known).mean() > 0.97
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-5)
    assert (chances[:, :-1][~there] == 0).all()
    again = type(ranker).of(ranker.as_data())
    assert np.array_equal(again.probabilities(candidates, mentions, there), chances)
    same = fitted_ranker(candidates, mentions, there, right)
    assert same.as_data() == ranker.as_data()


def test_a_rare_value_of_a_feature_does_not_outweigh_all_others() -> None:
    """Nearly all candidates have the first feature; the second tells which one is right."""
    rng, n = np.random.default_rng(0), 1000
    candidates = np.stack([np.ones((n, 4)), rng.random((n, 4))], axis=2).astype(np.float32)
    candidates[0, 0] = 0.0
    right = candidates[..., 1] == candidates[..., 1].max(axis=1, keepdims=True)
    there, mentions = np.ones((n, 4), bool), rng.random((n, 1)).astype(np.float32)
    ranker = fitted_ranker(candidates, mentions, there, right)
    rare = np.float32([[[0, 1], [1, 0.1], [1, 0.1], [1, 0.1]]])
    chances = ranker.probabilities(rare, mentions[:1], there[:1])
    assert chances[0].argmax() == 0 and chances[0, 0] > 0.5


def test_a_label_says_which_types_fit_and_how_often_the_kb_lacks_it() -> None:
    labels = ["Disease"] * 50 + ["Drug"] * 50
    types = [("T1",)] * 50 + [("T2",)] * 25 + [None] * 25
    priors = learnt_priors(labels, types, {("T1",): 500, ("T2",): 400, (): 100})
    asked = ["DISEASE", "Disease", "Drug", "Drug", "Drug", "Gene"]
    types = [("T1",), ("T2",), ("T1", "T2"), ("T2",), (), ("T1",)]
    empty, there = np.zeros((6, 1, 0), np.float32), np.ones((6, 1), bool)
    looked = Features(empty, empty[:, 0], there, asked, [[own] for own in types])
    fits, none, _ = looked.with_priors(priors)
    right, wrong, several, one, without, unknown = fits.ravel()
    assert right > 0 > wrong and several == one > 0 and without < 0 == unknown
    assert none[0] < none[5] < none[2]


def test_an_entity_that_alone_has_the_name_in_any_form_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = build_kb(ENTITIES, tmp_path / "kb", word_forms=True)
    mention = MentionInContext("renal pain", 0, 5)
    order = np.arange(N)[None]
    given = RankingInput([mention], Candidates(order, -order.astype(np.float32)))
    ordered = ranking_by_score(labels={"A": 3}).ordered(kb, ["A"], given)
    assert kb.labels(ordered.order[0, :1])[0][1] == "kidney" != ENTITIES[0].canonical_name
    # An owner behind the candidates that the ranking reads stays there.
    monkeypatch.setattr("spacy_pel.linking.ranking.TOP", 2)
    behind = np.roll(order, -int(ordered.order[0, 0]) - 1, axis=1)
    given = RankingInput([mention], Candidates(behind, -order.astype(np.float32)))
    last = ranking_by_score(labels={"A": 3}).ordered(kb, ["A"], given).order[0, -1]
    assert kb.labels(behind[:, last])[0][1] == "kidney"


def test_a_ranking_is_plain_data(whole_kb: KnowledgeBase) -> None:
    ranking = ranking_by_score(labels={"A": 3})
    again = Ranking.of(ranking.as_data())
    assert again.as_data() == ranking.as_data()
    # An older version fitted fewer features.
    older = ranking.as_data()
    del older["contexts"]
    for network, n_less in (("candidate", 1 + 8), ("mention", 4)):
        for name in (f"{network}_mean", f"{network}_spread"):
            older["ranker"][name] = older["ranker"][name][:-n_less]
    widths = {"candidate": 9 + 4, "none": 2 * 9 + 4}
    for network, n_less in widths.items():
        name = f"{network}.0.weight"
        older["ranker"][name] = [row[:-n_less] for row in older["ranker"][name]]
    given = RankingInput(mentions_in(None), found())
    ordered, before = (
        each.ordered(whole_kb, LABELS, given) for each in (ranking, Ranking.of(older))
    )
    np.testing.assert_array_equal(ordered.order, before.order)
    np.testing.assert_allclose(ordered.probabilities, before.probabilities)


def test_what_a_decision_rests_on_is_what_the_ranking_compares(whole_kb: KnowledgeBase) -> None:
    """The evidence of each candidate, also in its new order, against plain Python."""
    given = RankingInput(mentions_in(DocumentContext()), found())
    ordered = ranking_by_score(-4.0, 2.0).ordered(whole_kb, LABELS, given)  # the worst score first
    order = ordered.order[:, :N]
    assert not np.array_equal(order, np.sort(order))
    numbers = np.take_along_axis(given.candidates.numbers, order, axis=1)
    evidence = ordered.evidence
    for i, surface in enumerate(map(str.lower, SURFACES)):
        owners = sum(surface in map(str.lower, entity.names) for entity in ENTITIES)
        for j, number in enumerate(numbers[i].tolist()):
            names = ENTITIES[number].names
            similarity = [dice(surface, name) for name in names]
            assert evidence.names[i][j] == names[int(np.argmax(similarity))]
            assert evidence.similarity[i, j] == pytest.approx(max(similarity), abs=1e-6)
            if surface in ("ms", "ra", "nothing"):
                assert evidence.exact[i, j] == (surface in map(str.lower, names))
                assert evidence.owners[i, j] == owners
    assert not evidence.texts.any() and not evidence.all_texts.any()
