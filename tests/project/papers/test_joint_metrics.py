"""What joint linking is worth, against calibrating on one half and linking the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from papers.cross_fitting import FittedSettings
from papers.joint_metrics import cross_fitted_discovery, joint_metrics
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.fitting.calibrate import fit
from spacy_pel.fitting.fit_joint import fit_joint, gold_mentions
from spacy_pel.fitting.gold_examples import gold_examples, link_examples
from spacy_pel.jobs.joint_linking import clusters_of, with_settings
from spacy_pel.kb.vectors.matrix import VectorMatrix

from ...fitting.calibration_corpus import write_corpus, write_repeated_corpus


@pytest.fixture
def corpus(tiny_nlp: Language, tmp_path: Path) -> Path:
    return write_repeated_corpus(tiny_nlp, tmp_path)


def halves_by_hand(nlp: Language, corpus: Path) -> list[tuple]:
    """For each half its gold mentions and what was fitted on the other one."""
    linker = nlp.get_pipe("proxy_linker")
    found = []
    for half in (0, 1):
        examples = gold_examples(nlp, linker, [corpus])
        fit(nlp, linker, examples[half::2])
        linker.nil_threshold = None
        report = fit_joint(nlp, linker, examples[half::2])
        with with_settings(linker, vectors=True):
            link_examples(nlp, linker, examples[1 - half :: 2])
        found.append((report, gold_mentions(linker, examples[1 - half :: 2])))
    return found


def test_each_half_is_linked_as_the_other_one_says(tiny_nlp: Language, corpus: Path) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    before = FittedSettings.of(linker)
    metrics = joint_metrics(tiny_nlp, corpus)
    assert FittedSettings.of(linker) == before
    for way, chosen in {
        "directed": lambda report: report.by_direction[True],
        "undirected": lambda report: report.by_direction[False],
        "best": lambda report: report.settings.linking,
    }.items():
        right = []
        for report, gold in halves_by_hand(tiny_nlp, corpus):
            vectors = VectorMatrix(gold.vectors)
            found, ids = clusters_of(gold.mentions, vectors, report.settings, chosen(report))
            said = [ids[e] if e >= 0 else "" for e in found.entities]
            right += [s in g for s, g, known in zip(said, gold.golds, gold.in_kb) if known]
        assert metrics["recall@1"][way]["in_kb"] == pytest.approx(np.mean(right))
    one_by_one = [
        mention.id in golds
        for _, gold in halves_by_hand(tiny_nlp, corpus)
        for mention, golds, known in zip(gold.mentions, gold.golds, gold.in_kb)
        if known
    ]
    assert metrics["recall@1"]["one by one"]["in_kb"] == pytest.approx(np.mean(one_by_one))


def test_seen_and_unseen_are_told_apart(tiny_nlp: Language, corpus: Path) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    linker.cfg["trained_entities"] = []
    metrics = joint_metrics(tiny_nlp, corpus)
    assert metrics["recall@1"]["best"]["seen"] is None
    assert metrics["recall@1"]["best"]["unseen"] == metrics["recall@1"]["best"]["in_kb"]
    # The clusters of all are those of the unseen: all are unseen.
    assert metrics["ari"]["unseen"] == metrics["ari"]["all"] == metrics["ari"]["all_unseen"]
    linker.cfg["trained_entities"] = [entity.concept_id for entity in linker.kb]
    assert joint_metrics(tiny_nlp, corpus)["recall@1"]["best"]["unseen"] is None


def test_mentions_of_the_same_words_are_near(tiny_nlp: Language, corpus: Path) -> None:
    """The corpus has each text four times: the three others are among the 64 nearest."""
    metrics = joint_metrics(tiny_nlp, corpus)
    assert metrics["coreference_recall@64"] == 1.0
    assert 0.5 < metrics["ari"]["all"] <= 1


def test_discovery_leaves_the_linker_as_it_was(
    tiny_nlp: Language, corpus: Path, tmp_path: Path
) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    path, before = linker.kb.path, FittedSettings.of(linker)
    metrics = cross_fitted_discovery(tiny_nlp, corpus, tmp_path / "lacking", share=0.3)
    assert linker.kb.path == path and FittedSettings.of(linker) == before
    assert not (tmp_path / "lacking").exists()
    assert metrics["lacking"] > 0 and -1 <= metrics["ari_lacking"] <= metrics["ari_all"] <= 1
    assert metrics == cross_fitted_discovery(tiny_nlp, corpus, tmp_path / "other", share=0.3)


def test_what_cannot_be_fitted_is_an_error(tiny_nlp: Language, tmp_path: Path) -> None:
    one = write_corpus(tiny_nlp, tmp_path / "one.pubtator")
    before = FittedSettings.of(tiny_nlp.get_pipe("proxy_linker"))
    with pytest.raises(PelError):
        joint_metrics(tiny_nlp, one)
    assert FittedSettings.of(tiny_nlp.get_pipe("proxy_linker")) == before
