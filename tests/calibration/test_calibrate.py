from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.calibration.calibrate import calibrate
from spacy_pel.errors import PelError
from spacy_pel.evaluation.evaluate import evaluate

from ..conftest import pubtator
from .corpora import TEXT, write_corpus


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
