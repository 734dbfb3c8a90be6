import json
from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.calibration.calibrate import calibrate, calibrate_folder
from spacy_pel.errors import PelError
from spacy_pel.pipeline.pipelines import load_pipeline

from .corpora import write_corpus, write_repeated_corpus


@pytest.fixture
def corpus(tiny_nlp: Language, tmp_path: Path) -> Path:
    return write_repeated_corpus(tiny_nlp, tmp_path)


def test_it_is_never_worse_on_what_it_was_fitted_to(tiny_nlp: Language, corpus: Path) -> None:
    tiny_nlp.get_pipe("proxy_linker").output.overwrite = False  # the examples are linked twice
    report = calibrate(tiny_nlp, [corpus], jointly=True).joint
    assert report is not None
    assert 0 < report.accuracy_alone <= report.accuracy <= 1
    assert report.settings.slope > 0 and report.agreement > 0.5
    assert tiny_nlp.get_pipe("proxy_linker").joint == report.settings


def test_it_is_saved_and_dropped(tiny_folder: Path, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    load_pipeline(str(tiny_folder)).to_disk(folder)
    fitted = calibrate_folder(folder, [corpus], jointly=True).joint
    assert load_pipeline(str(folder)).get_pipe("proxy_linker").joint == fitted.settings
    assert calibrate_folder(folder, [corpus]).joint is not None  # is fitted again
    calibrate_folder(folder, [corpus], jointly=False)
    assert json.loads((folder / "proxy_linker" / "cfg").read_text())["joint"] is None


def test_mentions_that_never_mean_the_same_tell_nothing(tiny_nlp: Language, tmp_path: Path) -> None:
    corpus = write_corpus(tiny_nlp, tmp_path / "dev.pubtator")
    with pytest.raises(
        PelError, match="^0 of .* the same entity, so no probability can be fitted; give"
    ):
        calibrate(tiny_nlp, [corpus], jointly=True)
