import logging

import numpy as np
import pytest
import spacy
from spacy import displacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from thinc.api import Adam

from spacy_pel.linking.ranking import TOP

from ..rankings import ranking_by_score
from .conftest import TRAIN, Trained, examples, with_mentions


@pytest.fixture
def decided(trained: Trained) -> Language:
    """The trained pipeline, with a threshold between the scores of the mentions of ``two``."""
    nlp = spacy.load(trained.path)
    linker = nlp.get_pipe("proxy_linker")
    low, high = sorted(ent._.kb_score for ent in nlp(two(nlp)).ents)
    linker.nil_threshold = (low + high) / 2
    return nlp


def two(nlp: Language) -> Doc:
    """A doc with two mentions, each of two tokens."""
    text = "The patient has liver cyst. Who would know this?"
    return with_mentions(nlp, text, {"liver cyst": "", "would know": ""})


def by_score(doc: Doc) -> list[Span]:
    return sorted(doc.ents, key=lambda ent: -ent._.kb_score)


def test_a_score_below_the_threshold_is_nil(decided: Language) -> None:
    linker, doc = decided.get_pipe("proxy_linker"), decided(two(decided))
    linked, nil = by_score(doc)
    best = linked._.kb_candidates[0]["id"]
    assert (linked.kb_id_, linked._.kb_id, linked._.kb_ents[0][0]) == (best, best, best)
    assert (nil.kb_id_, nil._.kb_id, nil._.kb_ents) == ("NIL", "NIL", [])
    assert [token.ent_kb_id_ for token in nil] == ["NIL", "NIL"]
    assert "NIL" in displacy.render(doc, style="ent", jupyter=False)
    # The rejected candidates are those of a linker without a threshold.
    rejected = list(nil._.kb_candidates)
    linker.nil_threshold = None
    _, without = by_score(decided(two(decided)))
    assert without._.kb_candidates == rejected and without.kb_id_ == rejected[0]["id"]
    assert without._.kb_probability is None
    linker.ranking, linker.search.candidates = ranking_by_score(slope=4.0, none=1.0), 64
    for ent in decided(two(decided)).ents:
        best = ent._.kb_candidates[:TOP]
        logits = [4 * candidate["score"] for candidate in best] + [1.0]
        expected = np.exp(logits) / np.exp(logits).sum()
        found = [candidate["probability"] for candidate in best]
        assert found == pytest.approx(expected[:-1].tolist(), abs=1e-5)
        assert ent._.kb_probability == found[0] and type(found[0]) is float


def test_what_is_sure_is_not_nil_whatever_its_score(decided: Language) -> None:
    linker = decided.get_pipe("proxy_linker")
    linker.nil_threshold = 2.0  # above all scores and probabilities
    named, nearest = (ent._.kb_candidates[0]["id"] for ent in decided(two(decided)).ents)
    even, sure = ranking_by_score(slope=0.0), ranking_by_score(slope=30.0, none=-1e3)
    for probability, ranking, expected in (
        (0.5, None, [named, "NIL"]),  # "liver cyst" is the name of one entity
        (0.5, even, [named, "NIL"]),
        (0.5, sure, [named, nearest]),
        (None, sure, ["NIL", "NIL"]),
    ):
        linker.sure_probability, linker.ranking = probability, ranking
        assert [ent.kb_id_ for ent in decided(two(decided)).ents] == expected


@pytest.mark.parametrize("named", [None, 0.25])
def test_new_weights_drop_what_was_fitted_and_keep_the_configs_threshold(
    trained: Trained, named: float | None
) -> None:
    config = {"components.proxy_linker.nil_threshold": named}
    nlp = spacy.load(trained.path, config=config)
    linker = nlp.get_pipe("proxy_linker")
    linker.nil_threshold, linker.ranking = 0.5, ranking_by_score()
    nlp.update(examples(nlp, TRAIN[:2]), sgd=Adam(0.001))
    assert (linker.nil_threshold, linker.ranking) == (named, None)


def linked(nlp: Language, *labels: str) -> Doc:
    """A doc with a mention of each label, linked."""
    doc = Doc(nlp.vocab, words=["MS"] * len(labels))
    doc.ents = [Span(doc, n, n + 1, label) for n, label in enumerate(labels)]
    return nlp.get_pipe("proxy_linker")(doc)


def test_a_new_label_is_warned_of_once(
    tiny_nlp: Language, caplog: pytest.LogCaptureFixture
) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    with caplog.at_level(logging.WARNING):
        linker.ranking = ranking_by_score(labels={"T047": 3})  # of another scheme
        linked(tiny_nlp, "DISEASE", "ENTITY")
        linker.ranking = ranking_by_score(labels={"Disease": 1200, "Chemical": 7})
        linked(tiny_nlp, "DISEASE", "chemical")
        assert not caplog.records
        doc = linked(tiny_nlp, "Procedure", "Disease", "Procedure", "A\x1b[31m")
        linked(tiny_nlp, "Procedure")
    assert all(0 < ent._.kb_probability < 1 for ent in doc.ents)
    (message,) = [record.getMessage() for record in caplog.records]
    assert "fitted on mentions of Disease (1,200), Chemical (7)." in message
    assert r"wrong for mentions of 'A\x1b[31m', 'Procedure'; calibrate on a corpus" in message
