from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.evaluation.evaluate import evaluate

from ..calibration.corpora import CORPUS
from ..conftest import write_text


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_text(tmp_path / "dev.pubtator", CORPUS)


def test_there_are_64_candidates_whatever_the_linker_keeps(
    tiny_nlp: Language, corpus: Path
) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    linker.search.candidates = 1
    metrics = evaluate(tiny_nlp, [corpus])
    assert metrics["recall@64"]["in_kb"] == 1.0  # all 7 entities are candidates
    assert linker.search.candidates == 1


def test_several_files_and_a_limit(tiny_nlp: Language, corpus: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.pubtator"
    more.write_text(CORPUS + CORPUS.replace("1|", "2|").replace("1\t", "2\t"), encoding="utf8")
    assert evaluate(tiny_nlp, [corpus, more])["mentions"] == 15
    assert evaluate(tiny_nlp, [corpus, more], limit=1)["mentions"] == 10
