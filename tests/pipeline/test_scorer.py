from collections.abc import Sequence
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_pel.corpora.doc_conversion import set_mentions
from spacy_pel.kb import KnowledgeBase
from spacy_pel.metrics.linking import linking_metrics
from spacy_pel.pipeline.annotations import install_extensions
from spacy_pel.pipeline.scorer import linking_scores

NLP = spacy.blank("en")


def example(
    golds: Sequence[str | None], found: Sequence[Sequence[str] | None], spans_key: str | None = None
) -> Example:
    """A doc of one-token mentions.

    golds: the gold id of each, None where there is no gold mention. found: the candidates of each,
    best first; [] for a mention that was not linked, None where the pipeline found no mention.
    """
    install_extensions()
    made = []
    firsts = [None if ids is None else (ids or [""])[0] for ids in found]
    for ids in (firsts, golds):
        doc = Doc(NLP.vocab, words=[f"w{n}" for n in range(len(golds))])
        places = [(n, id) for n, id in enumerate(ids) if id is not None]
        spans = [Span(doc, n, n + 1, label="T", kb_id=id) for n, id in places]
        set_mentions(doc, spans, spans_key)
        made.append(doc)
    for n, ids in enumerate(found):
        candidates = [{"id": id, "name": id, "score": 1.0} for id in ids or ()]
        made[0][n : n + 1]._.kb_candidates = candidates
    return Example(*made)


# Gold, candidates, rank of the first hit, in the KB, seen in training
MENTIONS = [
    ("C01", ["C01", "C02"], 1, True, True),
    ("C02", ["C01", "C02"], 2, True, False),
    ("NIL", ["C05"], 0, False, False),
    ("", ["C05"], 0, False, False),
    ("C06", [], 0, True, False),
    ("NIL", [], 0, False, False),
    ("C04|C03", ["C03", "C04"], 1, True, True),  # either is right
    ("X3", ["C03"], 1, True, True),  # an alternative id of C03
    ("C07", None, 0, True, False),  # missed by the pipeline
    ("XYZ", ["C01"], 0, False, False),  # not in the KB
    ("XYZ|C05", ["C06", "C01", "C05"], 3, True, False),
    (None, ["C01"], None, None, None),  # no gold mention
]
COUNTED = [mention for mention in MENTIONS if mention[0] is not None]


def test_recall_and_mrr(bare_kb: KnowledgeBase) -> None:
    golds, found = zip(*[mention[:2] for mention in MENTIONS])
    # In two docs: a mention is known by its place in its own.
    docs = [example(golds[:5], found[:5]), example(golds[5:], found[5:])]
    scores = linking_scores(docs, kb=bare_kb, trained_entities=["C01", "C03"])
    expected = linking_metrics(*list(zip(*COUNTED))[2:])
    assert expected["mentions"] == 11 and expected["mrr"]["in_kb"] > 0
    assert {name: scores[name] for name in expected} == expected
    # spaCy's. Right: C01, C04|C03, X3. Wrong id: C02, XYZ, XYZ|C05. Linked though NIL: two. Not
    # linked: C06. Of mentions that were missed, or have no gold, spaCy counts none.
    assert scores["nel_micro_p"] == pytest.approx(3 / (3 + 3 + 2))
    assert scores["nel_micro_r"] == pytest.approx(3 / (3 + 3 + 1))
    # Entities of documents.
    gold = [{"C01", "C02", "C06"}, {"C04", "C03", "C07", "XYZ", "C05"}]  # X3 is C03
    said = [{"C01", "C05"}, {"C03", "C01", "C06"}]
    right = sum(len(one & other) for one, other in zip(gold, said))
    assert scores["concepts"] == pytest.approx(
        {"precision": right / 5, "recall": right / 8, "f1": 2 * right / 13}
    )


def test_mentions_of_a_group(bare_kb: KnowledgeBase) -> None:
    docs = [example(["C01", "C02", "C06"], [["C01"], ["C01", "C02"], None], "sc")]
    scores = linking_scores(docs, kb=bare_kb, trained_entities=["C01"], spans_key="sc")
    assert scores["recall@1"]["in_kb"] == pytest.approx(1 / 3)
    assert "nel_micro_f" not in scores
    assert linking_scores(docs, kb=bare_kb, trained_entities=[])["mentions"] == 0


def test_nothing_to_score(bare_kb: KnowledgeBase) -> None:
    for docs in ([], [example([], [])], [example([None], [["C01"]])]):
        scores = linking_scores(docs, kb=bare_kb, trained_entities=["C01"])
        assert scores["mentions"] == 0 and scores["nel_recall_at_1"] is None


def nil_example(rows: Sequence[tuple[str, str, float, float | None]]) -> Example:
    """A doc whose mentions have gold id, predicted id, score and probability; the best is C01."""
    made = example([gold for gold, *_ in rows], [["C01", "C02"]] * len(rows))
    for ent, (_, id, score, probability) in zip(made.predicted.ents, rows):
        ent[0].ent_kb_id_ = id
        ent._.kb_id, ent._.kb_score, ent._.kb_probability = id, score, probability
        scores = {"C01": score, "C02": score - 0.1}
        ent._.kb_candidates = [{"id": id, "name": id, "score": s} for id, s in scores.items()]
    return made


ROWS = [
    ("C01", "C01", 0.9, 0.8),
    ("C02", "C01", 0.8, 0.7),
    ("C01", "NIL", 0.2, 0.1),  # rejected wrongly
    ("NIL", "NIL", 0.1, 0.1),
    ("XYZ", "NIL", 0.3, 0.2),  # not in the KB
    ("NIL", "C01", 0.7, 0.6),
]


def scored(bare_kb: KnowledgeBase, made: Example, **given: Any) -> dict[str, Any]:
    return linking_scores([made], kb=bare_kb, trained_entities=[], **given)


def test_nil_and_probabilities_are_counted(bare_kb: KnowledgeBase) -> None:
    scores = scored(bare_kb, nil_example(ROWS), nil_threshold=0.5)
    nil = scores["nil"]
    figures = nil["gold"], nil["precision"], nil["recall"], nil["recall@1"]
    assert figures == pytest.approx((3, 2 / 3, 2 / 3, 3 / 6))
    # In bins of a 15th: 0.1 twice, one of them right; each other one alone, the first right.
    error = (abs(0.2 - 1) + 0.2 + 0.7 + 0.2 + 0.6) / 6
    assert scores["expected_calibration_error"] == pytest.approx(error)
    without = nil_example([(*row[:3], None) for row in ROWS])
    assert "expected_calibration_error" not in scored(bare_kb, without)


def test_missed_mentions_are_never_nil(bare_kb: KnowledgeBase) -> None:
    made = example(["NIL", "NIL", "C01"], [None, ["C05"], ["C01"]])
    nil = scored(bare_kb, made, nil_threshold=0.0)["nil"]
    assert (nil["gold"], nil["recall"], nil["precision"]) == (2, 0.0, None)
    assert nil["average_precision"] == pytest.approx(0.5 / 2)  # a tie of two, the third missed
