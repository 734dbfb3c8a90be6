"""Evaluation: candidates, files, limits, any layout of corpora, and what is right by a name."""

from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_pel.fitting.evaluate import evaluate, surface_scores, surface_summary
from spacy_pel.kb import KnowledgeBase
from spacy_pel.pipeline.annotations import install_extensions

from .evaluation_corpus import CORPUS


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "dev.pubtator"
    path.write_text(CORPUS, encoding="utf8")
    return path


def test_there_are_64_candidates_whatever_the_linker_keeps(
    tiny_nlp: Language, corpus: Path
) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    linker.candidates = 1
    metrics = evaluate(tiny_nlp, [corpus])
    assert metrics["recall@64"]["in_kb"] == 1.0  # all 7 entities are candidates
    assert linker.candidates == 1


def test_several_files_and_a_limit(tiny_nlp: Language, corpus: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.pubtator"
    more.write_text(CORPUS + CORPUS.replace("1|", "2|").replace("1\t", "2\t"), encoding="utf8")
    assert evaluate(tiny_nlp, [corpus, more])["mentions"] == 15
    assert evaluate(tiny_nlp, [corpus, more], limit=1)["mentions"] == 10


def example(surface: str, gold: str, answers: list[str]) -> Example:
    install_extensions()
    vocab = spacy.blank("xx").vocab
    predicted, reference = (Doc(vocab, words=["the", surface]) for _ in range(2))
    predicted.ents = [Span(predicted, 1, 2, "T")]
    reference.ents = [Span(reference, 1, 2, "T", kb_id=gold)]
    if answers:
        predicted.ents[0]._.kb_candidate_columns = {"id": answers}
    return Example(predicted, reference)


def test_scores_are_counted(bare_kb: KnowledgeBase) -> None:
    """C01 and C02 share the name MS, C03 and C04 the name RA."""
    examples = [
        example("MS", "C01", ["C02", "C01"]),  # wrong, but a name in common
        example("MS", "C02", ["C02"]),
        example("aspirin", "C05", ["C05"]),
        example("RA", "C99|X3", ["C04"]),  # X3 is another id of C03
        example("kidney", "C07", ["C05"]),
        example("kidney", "C07", []),
        example("gout", "C99", ["C05"]),  # not in the KB: does not count
    ]
    scores = surface_scores(examples, bare_kb)
    assert scores == {
        "strict": pytest.approx(2 / 6),
        "lenient": pytest.approx(4 / 6),
        "ambiguous": 3 / 6,
        "strict_ambiguous": pytest.approx(1 / 3),
        "lenient_ambiguous": 1.0,
    }
    assert surface_summary(scores) == (
        "recall@1 in KB: by id 33.3, by name 66.7; 50.0 % of mentions are a name of several "
        "entities: by id 33.3, by name 100.0"
    )
