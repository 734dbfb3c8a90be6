"""Cross-fitting against two calibrations and two evaluations, each of one half of the documents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from papers.cross_fitting import FittedSettings, evaluate_cross_fitted
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.fitting.calibrate import calibrate
from spacy_pel.fitting.evaluate import evaluate

from ...fitting.calibration_corpus import pubtator, write_corpus

MORE_NIL = [("Aspirin", "right"), ("headache", "-1"), ("MS", "-1"), ("kidney", "C02")]


@pytest.fixture
def halves(tiny_nlp: Language, tmp_path: Path) -> list[str]:
    """Two documents that differ in which mentions are NIL."""
    first = write_corpus(tiny_nlp, tmp_path / "first.pubtator").read_text("utf8")
    (right,) = (line.split("\t")[5] for line in first.splitlines() if "\tAspirin\t" in line)
    golds = [(mention, right if id == "right" else id) for mention, id in MORE_NIL]
    return [first, pubtator(golds)]


@pytest.fixture
def corpus_of(tmp_path: Path) -> Callable[..., Path]:
    """Write a corpus of these documents, one after the other."""

    def write(name: str, *documents: str) -> Path:
        path = tmp_path / f"{name}.pubtator"
        path.write_text("\n".join(documents) + "\n", encoding="utf8")
        return path

    return write


@pytest.mark.parametrize("names", [False, True])
def test_each_half_is_linked_as_the_other_one_says(
    tiny_nlp: Language, halves: list[str], corpus_of: Callable[..., Path], names: bool
) -> None:
    even, odd = (corpus_of(str(number), half) for number, half in enumerate(halves))
    each, thresholds = [], []
    for fitted, used in ((odd, even), (even, odd)):
        report = calibrate(tiny_nlp, [fitted], names=names)
        thresholds.append(report.nil_threshold)
        each.append(evaluate(tiny_nlp, [used]))
    assert thresholds[0] != thresholds[1]

    linker = tiny_nlp.get_pipe("proxy_linker")
    before = FittedSettings.of(linker)
    both = corpus_of("both", halves[0], halves[1], halves[0], halves[1])
    metrics = evaluate_cross_fitted(tiny_nlp, {"both": both}, names=names)["both"]
    assert FittedSettings.of(linker) == before
    assert metrics["mentions"] == 2 * sum(one["mentions"] for one in each)
    for name in ("recall@1", "recall@64"):
        hits = sum(one["mentions"] * one["nil"][name] for one in each)
        assert metrics["nil"][name] == pytest.approx(2 * hits / metrics["mentions"])
        hits = sum(one["mentions"] * one[name]["all"] for one in each)
        assert metrics[name]["all"] == pytest.approx(2 * hits / metrics["mentions"])
    told = [one["nil"]["recall"] * one["nil"]["gold"] for one in each]
    assert metrics["nil"]["recall"] == pytest.approx(2 * sum(told) / metrics["nil"]["gold"])


def test_all_corpora_are_fitted_to_together(
    tiny_nlp: Language, halves: list[str], corpus_of: Callable[..., Path]
) -> None:
    # Each corpus alone has a half without a document.
    corpora = {name: corpus_of(name, half) for name, half in zip("ab", halves)}
    with pytest.raises(PelError):
        evaluate_cross_fitted(tiny_nlp, corpora)
    corpora = {"a": corpus_of("a", *halves), "b": corpus_of("b", *halves)}
    metrics = evaluate_cross_fitted(tiny_nlp, corpora)
    assert metrics["a"]["nil"] == metrics["b"]["nil"]
    assert metrics["a"]["corpus"] == [str(corpora["a"])]
