"""NIL and probabilities, as the component decides and writes them, and the labels they hold for."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy import displacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from thinc.api import Adam

from spacy_pel.fitting.calibrate import calibrate
from spacy_pel.kb.vectors.index import Candidates
from spacy_pel.linking.calibration import Calibration

from ..fitting.calibration_corpus import write_corpus
from .conftest import TRAIN, Trained, examples, with_mentions


@pytest.fixture
def decided(trained: Trained) -> Language:
    """The trained pipeline, with a threshold between the scores of the mentions of ``two``."""
    nlp = spacy.load(trained.path)
    linker = nlp.get_pipe("proxy_linker")
    low, high = sorted(ent._.kb_score for ent in nlp(two(nlp)).ents)
    linker.nil_threshold = (low + high) / 2
    linker.calibration = Calibration(4.0, -4.0 * linker.nil_threshold)
    return nlp


def two(nlp: Language) -> Doc:
    """A doc with two mentions, each of two tokens."""
    text = "The patient has liver cyst. Who would know this?"
    return with_mentions(nlp, text, {"liver cyst": "", "would know": ""})


def by_score(doc: Doc) -> list[Span]:
    return sorted(doc.ents, key=lambda ent: -ent._.kb_score)


def test_a_score_below_the_threshold_is_nil(decided: Language) -> None:
    linked, nil = by_score(decided(two(decided)))
    best = linked._.kb_candidates[0]["id"]
    assert (linked.kb_id_, linked._.kb_id) == (best, best) and linked._.kb_ents[0][0] == best
    assert (nil.kb_id_, nil._.kb_id) == ("NIL", "NIL")
    assert [token.ent_kb_id_ for token in nil] == ["NIL", "NIL"]
    # The rejected candidates are those of a linker without a threshold.
    rejected = list(nil._.kb_candidates)
    assert nil._.kb_ents == [] and nil._.kb_score == rejected[0]["score"]
    decided.get_pipe("proxy_linker").nil_threshold = None
    _, without = by_score(decided(two(decided)))
    assert without._.kb_candidates == rejected and without.kb_id_ == rejected[0]["id"]


def test_the_probability_is_the_sigmoid_of_the_score(decided: Language) -> None:
    threshold = decided.get_pipe("proxy_linker").nil_threshold
    for ent in decided(two(decided)).ents:
        expected = 1 / (1 + math.exp(-4.0 * (ent._.kb_score - threshold)))
        assert type(ent._.kb_probability) is float
        assert ent._.kb_probability == pytest.approx(expected)
    decided.get_pipe("proxy_linker").calibration = None
    assert [ent._.kb_probability for ent in decided(two(decided)).ents] == [None, None]


def test_what_is_sure_is_not_nil_whatever_its_score(decided: Language) -> None:
    linker = decided.get_pipe("proxy_linker")
    linker.nil_threshold = 2.0  # above all scores
    linker.sure_probability = 0.5  # the default

    def ids() -> list[str]:
        return [ent.kb_id_ for ent in decided(two(decided)).ents]

    named, nearest = (ent._.kb_candidates[0]["id"] for ent in decided(two(decided)).ents)
    assert ids() == [named, "NIL"]  # "liver cyst" is the name of one entity
    linker.calibration = None
    assert ids() == [named, "NIL"]
    linker.calibration = Calibration(0.0, 1.0)  # sure of everything: 73 %
    assert ids() == [named, nearest]
    linker.sure_probability = 0.75
    assert ids() == [named, "NIL"]
    linker.sure_probability = None
    assert ids() == ["NIL", "NIL"]


def test_nil_is_written_on_groups_and_drawn_by_displacy(decided: Language, monkeypatch) -> None:
    doc = decided(two(decided))
    assert "NIL" in displacy.render(doc, style="ent", jupyter=False)
    doc = decided.make_doc("Who would know this?")
    doc.spans["sc"] = [doc[1:3]]
    linker = decided.get_pipe("proxy_linker")
    linker.nil_threshold = 2.0
    monkeypatch.setattr(linker, "spans_key", "sc")
    (span,) = decided(doc).spans["sc"]
    assert (span.kb_id_, span._.kb_id, span._.kb_ents) == ("NIL", "NIL", [])
    assert len(span._.kb_candidates) == 5


@pytest.mark.parametrize(("threshold", "id"), [(None, ""), (-1.0, "NIL")])
def test_a_mention_without_a_candidate(decided: Language, monkeypatch, threshold, id) -> None:
    linker = decided.get_pipe("proxy_linker")
    linker.nil_threshold = threshold

    class Empty:
        def search(self, vectors, k):
            shape = (len(vectors), k)
            return Candidates(np.full(shape, -1), np.full(shape, -np.inf, dtype=np.float32))

    monkeypatch.setattr(type(linker), "index", Empty())
    for ent in decided(two(decided)).ents:
        assert (ent.kb_id_, ent._.kb_id) == (id, id)
        values = (ent._.kb_score, ent._.kb_probability, ent._.kb_candidates, ent._.kb_ents)
        assert values == (None, None, [], [])


def test_new_weights_drop_what_was_calibrated(decided: Language) -> None:
    linker = decided.get_pipe("proxy_linker")
    decided.update(examples(decided, TRAIN[:2]), sgd=Adam(0.001))
    assert (linker.nil_threshold, linker.calibration) == (None, None)


def test_a_configured_threshold_outlives_training(trained: Trained) -> None:
    named = {"components.proxy_linker.nil_threshold": 0.25}
    nlp = spacy.load(trained.path, config=named)
    linker = nlp.get_pipe("proxy_linker")
    linker.calibration = Calibration(1.0, 0.0)
    nlp.update(examples(nlp, TRAIN[:2]), sgd=Adam(0.001))
    assert (linker.nil_threshold, linker.calibration) == (0.25, None)


# Labels


def linked(nlp: Language, *labels: str) -> Doc:
    """A doc with a mention of each label, linked."""
    doc = Doc(nlp.vocab, words=["MS"] * len(labels))
    doc.ents = [Span(doc, n, n + 1, label) for n, label in enumerate(labels)]
    return nlp.get_pipe("proxy_linker")(doc)


def test_labels_are_counted_and_saved(tiny_nlp: Language, tmp_path: Path) -> None:
    corpus = write_corpus(tiny_nlp, tmp_path / "dev.pubtator")
    counts: dict[str, int] = {}
    for line in corpus.read_text("utf8").splitlines():
        if "\t" in line:
            label = line.split("\t")[4]
            counts[label] = counts.get(label, 0) + 1
    report = calibrate(tiny_nlp, [corpus])
    linker = tiny_nlp.get_pipe("proxy_linker")
    assert linker.calibration.labels == counts and sum(counts.values()) == report.mentions
    assert report.fitted_on == linker.calibration.fitted_on
    tiny_nlp.to_disk(tmp_path / "pipeline")
    assert spacy.load(tmp_path / "pipeline").get_pipe("proxy_linker").calibration.labels == counts


def test_a_new_label_is_warned_of_once(
    tiny_nlp: Language, caplog: pytest.LogCaptureFixture
) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    linker.calibration = Calibration(4.0, -1.0, labels={"Disease": 1200, "Chemical": 7})
    with caplog.at_level(logging.WARNING):
        doc = linked(tiny_nlp, "DISEASE", "chemical")
        assert not caplog.records
        doc = linked(tiny_nlp, "Procedure", "Disease", "Procedure", "A\x1b[31m")
        linked(tiny_nlp, "Procedure")
    assert all(0 < ent._.kb_probability < 1 for ent in doc.ents)
    (message,) = [record.getMessage() for record in caplog.records]
    assert "fitted on mentions of Disease (1,200), Chemical (7)." in message
    assert r"wrong for mentions of 'A\x1b[31m', 'Procedure'; calibrate on a corpus" in message


def test_labels_of_another_scheme_are_not_warned_of(
    tiny_nlp: Language, caplog: pytest.LogCaptureFixture
) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    linker.calibration = Calibration(4.0, -1.0, labels={"T047": 3, "T109": 1})
    with caplog.at_level(logging.WARNING):
        linked(tiny_nlp, "DISEASE", "ENTITY")
    assert not caplog.records


def test_a_pipeline_of_before_says_nothing(
    tiny_nlp: Language, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tiny_nlp.to_disk(tmp_path / "pipeline")
    path = tmp_path / "pipeline" / "proxy_linker" / "cfg"
    cfg = json.loads(path.read_text("utf8"))
    path.write_text(json.dumps({**cfg, "calibration": [4.0, -1.0, 0]}))
    nlp = spacy.load(tmp_path / "pipeline")
    with caplog.at_level(logging.WARNING):
        doc = linked(nlp, "Procedure")
    assert doc.ents[0]._.kb_probability is not None and not caplog.records
    assert nlp.get_pipe("proxy_linker").calibration.labels is None
