"""spaCy's own commands on a pipeline that links: benchmark accuracy and find-threshold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.cli.evaluate import evaluate
from spacy.cli.find_threshold import find_threshold
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Corpus

from .conftest import with_mentions

TEXT = "MS and aspirin and a headache of the kidney."
IDS = {"MS": "C01", "aspirin": "C05", "headache": "NIL", "kidney": "C99"}


@pytest.fixture
def gold(tmp_path: Path, tiny_nlp: Language) -> Path:
    """Gold mentions as DocBin, which is all that these commands read."""
    path = tmp_path / "dev.spacy"
    DocBin(docs=[with_mentions(tiny_nlp, TEXT, IDS)], store_user_data=True).to_disk(path)
    return path


def test_benchmark_accuracy_scores_links(tiny_folder: Path, tiny_nlp: Language, gold: Path) -> None:
    scores = evaluate(str(tiny_folder), gold)
    assert (scores["mentions"], scores["in_kb"], scores["ents_f"]) == (4, 2, 1.0)
    right = [ent._.kb_id == IDS[ent.text] for ent in tiny_nlp(TEXT).ents]
    assert scores["nel_recall_at_1"] == sum(right) / 2
    assert scores["nel_accuracy"] == sum(right) / 4  # without a threshold no mention is NIL
    assert scores["nel_micro_r"] == pytest.approx(sum(right) / 3)
    by_component = evaluate(str(tiny_folder), gold, per_component=True)
    assert by_component["proxy_linker"]["nel_micro_f"] == scores["nel_micro_f"]


def test_find_threshold_finds_that_of_nil(tiny_folder: Path, tmp_path: Path, gold: Path) -> None:
    # The threshold alone decides what is NIL. It is a number of numpy in find-threshold.
    only = {"sure_probability": None, "nil_threshold": np.float64(0.4)}
    nlp = spacy.load(tiny_folder, config={"components": {"proxy_linker": only}})
    linker = nlp.get_pipe("proxy_linker")
    assert linker.nil_threshold == 0.4
    linker.nil_threshold = None
    nlp.to_disk(tmp_path / "pipeline")
    best, score, scores = find_threshold(
        str(tmp_path / "pipeline"), gold, "proxy_linker", "nil_threshold", "nel_nil_f", n_trials=6
    )
    assert sorted(scores) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert score == scores[best] == max(scores.values())
    for threshold, found in scores.items():
        linker.nil_threshold = float(threshold)
        assert nlp.evaluate(list(Corpus(gold)(nlp)))["nel_nil_f"] == found
    assert len(set(scores.values())) > 1
