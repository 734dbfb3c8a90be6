"""Strict and lenient accuracy, by hand."""

from __future__ import annotations

import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_pel.fitting.evaluate import surface_scores, surface_summary
from spacy_pel.kb import KnowledgeBase
from spacy_pel.pipeline.annotations import install_extensions


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
