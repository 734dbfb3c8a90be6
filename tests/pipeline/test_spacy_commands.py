"""spaCy's own commands on a pipeline that links: benchmark accuracy, benchmark speed, find-threshold."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy
from spacy.cli.evaluate import evaluate
from spacy.cli.find_threshold import find_threshold
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Corpus

from spacy_pel.corpora.document_corpus import open_corpus

TEXT = """\
1|t|MS and aspirin and a headache of the kidney.
1\t0\t2\tMS\tTERM\tC01
1\t7\t14\taspirin\tTERM\tC05
1\t21\t29\theadache\tTERM\t-1
1\t37\t43\tkidney\tTERM\tC99

"""


@pytest.fixture
def gold(tmp_path: Path, tiny_nlp: Language) -> Path:
    """Gold mentions as DocBin, which is all that these commands read."""
    (tmp_path / "dev.pubtator").write_text(TEXT)
    examples = open_corpus(tmp_path / "dev.pubtator")(tiny_nlp)
    path = tmp_path / "dev.spacy"
    DocBin(docs=(example.reference for example in examples), store_user_data=True).to_disk(path)
    return path


def test_benchmark_accuracy_scores_links(tiny_folder: Path, tiny_nlp: Language, gold: Path) -> None:
    scores = evaluate(str(tiny_folder), gold)
    assert (scores["mentions"], scores["in_kb"], scores["ents_f"]) == (4, 2, 1.0)
    doc = tiny_nlp("MS and aspirin and a headache of the kidney.")
    right = [ent._.kb_id == id for ent, id in zip(doc.ents, ("C01", "C05"))]
    assert scores["nel_recall_at_1"] == sum(right) / 2
    assert scores["nel_accuracy"] == sum(right) / 4  # without a threshold no mention is NIL
    assert scores["nel_micro_r"] == pytest.approx(sum(right) / 3)
    by_component = evaluate(str(tiny_folder), gold, per_component=True)
    assert by_component["proxy_linker"]["nel_micro_f"] == scores["nel_micro_f"]


@pytest.mark.parametrize("key", ["nel_nil_f", "nel_micro_f"])
def test_find_threshold_finds_that_of_nil(
    tiny_folder: Path, tmp_path: Path, gold: Path, key: str
) -> None:
    # The threshold alone decides what is NIL.
    nlp = spacy.load(tiny_folder, config={"components.proxy_linker.sure_probability": None})
    nlp.to_disk(tmp_path / "pipeline")
    best, score, scores = find_threshold(
        str(tmp_path / "pipeline"), gold, "proxy_linker", "nil_threshold", key, n_trials=6
    )
    assert sorted(scores) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert score == scores[best] == max(scores.values())
    for threshold, found in scores.items():
        nlp.get_pipe("proxy_linker").nil_threshold = float(threshold)
        assert nlp.evaluate(list(Corpus(gold)(nlp)))[key] == found
    assert len(set(scores.values())) > 1


def test_nil_threshold_of_the_best_is_kept(tiny_folder: Path) -> None:
    """A threshold is a number of numpy in find-threshold."""
    import numpy as np

    config = {"components": {"proxy_linker": {"nil_threshold": np.float64(0.4)}}}
    nlp = spacy.load(tiny_folder, config=config)
    assert nlp.get_pipe("proxy_linker").nil_threshold == 0.4
