"""Calibration of a linker: what is fitted, and what a failure leaves."""

from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.fitting.calibrate import calibrate, nil_threshold_of_names
from spacy_pel.fitting.evaluate import evaluate
from spacy_pel.jobs.embed import embed_kb
from spacy_pel.kb import Entity, build_kb
from spacy_pel.reading.entity_texts import EntityText
from spacy_pel.reading.mention import MentionInContext

from ..conftest import CONFIG, pubtator
from .calibration_corpus import TEXT, write_corpus


@pytest.fixture
def corpus(tiny_nlp: Language, tmp_path: Path) -> Path:
    """A corpus for calibration, see ``write_corpus``."""
    return write_corpus(tiny_nlp, tmp_path / "dev.pubtator")


def test_the_threshold_has_the_best_f1(tiny_nlp: Language, corpus: Path) -> None:
    figures = calibrate(tiny_nlp, [corpus])
    linker = tiny_nlp.get_pipe("proxy_linker")
    found = linker.nil_threshold
    scores = []
    for threshold in [n / 50 for n in range(-50, 51)] + [found]:
        linker.nil_threshold = threshold
        scores.append(evaluate(tiny_nlp, [corpus])["nil"]["f1"])
    assert scores[-1] == max(scores) == figures.nil["f1"] > 0


def test_a_failure_leaves_the_linker_as_it_was(tiny_nlp: Language, corpus: Path) -> None:
    calibrate(tiny_nlp, [corpus])
    linker = tiny_nlp.get_pipe("proxy_linker")
    settings = linker.settings_of_weights()
    corpus.write_text(pubtator(TEXT, [("MS", "-1")]), encoding="utf8")
    with pytest.raises(PelError, match="all mentions are NIL"):
        calibrate(tiny_nlp, [corpus])
    assert linker.settings_of_weights() == settings


def test_a_quarter_of_names_would_be_nil_without_their_entities(tmp_path: Path) -> None:
    rng, syllables = np.random.default_rng(1), ["ba", "ko", "mi", "ru", "te", "zu", "lo", "na"]
    names = ["".join(rng.choice(syllables, size=rng.integers(2, 5))) for _ in range(80)]
    build_kb([Entity(f"E{i}", name) for i, name in enumerate(names)], tmp_path)
    nlp = spacy.blank("xx")
    linker = nlp.add_pipe("proxy_linker", config={**CONFIG, "kb": str(tmp_path)})
    nlp.initialize()
    embed_kb(tmp_path, linker)
    linker.set_kb(tmp_path)
    of_mentions = linker.retriever.mention_vectors(
        [MentionInContext(name, 0, len(name)) for name in names]
    )
    rows = linker.retriever.entity_vectors([EntityText(name, "", "") for name in names])
    scores = of_mentions @ rows.T
    same = np.array([[one == other for other in names] for one in names])
    others = np.where(same, -np.inf, scores).max(axis=1)
    own = np.where(same, scores, -np.inf).max(axis=1)
    expected = min(np.quantile(others, 0.25), np.quantile(own, 0.01))
    assert nil_threshold_of_names(linker) == pytest.approx(expected, abs=1e-3)
    assert nil_threshold_of_names(linker) == nil_threshold_of_names(linker)
