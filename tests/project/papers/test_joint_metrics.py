from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from papers.joint_metrics import cross_fitted_discovery, discovery_metrics, joint_metrics
from spacy.language import Language

from spacy_pel.batch.joint_linking import clusters_of, with_settings
from spacy_pel.calibration.calibrate import fit
from spacy_pel.calibration.fit_joint import GoldMentions, fit_joint, gold_mentions
from spacy_pel.coreference.clusters import Clusters
from spacy_pel.evaluation.evaluate import gold_examples, link_examples
from spacy_pel.kb.vectors.matrix import VectorMatrix
from spacy_pel.pipeline.joint_annotations import CorpusMention

from ...calibration.corpora import write_repeated_corpus
from ...conftest import ENTITIES


@pytest.fixture
def corpus(tiny_nlp: Language, tmp_path: Path) -> Path:
    """Each text four times."""
    return write_repeated_corpus(tiny_nlp, tmp_path)


def halves_by_hand(nlp: Language, corpus: Path) -> list[tuple]:
    """For each half what was fitted on the other one, and its gold mentions."""
    linker = nlp.get_pipe("proxy_linker")
    found = []
    for half in (0, 1):
        examples = gold_examples(nlp, linker, [corpus])
        fit(nlp, linker, examples[half::2])
        linker.nil_threshold = None
        report = fit_joint(nlp, linker, examples[half::2])
        with with_settings(linker.output, vectors=True):
            link_examples(nlp, linker, examples[1 - half :: 2])
        found.append((report, gold_mentions(linker, examples[1 - half :: 2])))
    return found


def test_mentions_are_linked_as_the_other_half_says(tiny_nlp, corpus: Path) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    before = replace(linker.fitted)
    linker.cfg["trained_entities"] = []
    metrics = joint_metrics(tiny_nlp, corpus)
    assert linker.fitted == before
    by_hand = halves_by_hand(tiny_nlp, corpus)
    for way, chosen in {
        "directed": lambda report: report.by_direction[True],
        "undirected": lambda report: report.by_direction[False],
        "best": lambda report: report.settings.linking,
        "one by one": None,
    }.items():
        right = []
        for report, gold in by_hand:
            said = [mention.id for mention in gold.mentions]
            if chosen:
                vectors = VectorMatrix(gold.vectors)
                found, ids = clusters_of(gold.mentions, vectors, report.settings, chosen(report))
                said = [ids[e] if e >= 0 else "" for e in found.entities]
            right += [s in g for s, g, known in zip(said, gold.golds, gold.in_kb) if known]
        figures = metrics["recall@1"][way]
        assert figures["in_kb"] == pytest.approx(np.mean(right))
        assert figures["seen"] is None and figures["unseen"] == figures["in_kb"]  # all are unseen
    linker.cfg["trained_entities"] = [entity.concept_id for entity in linker.kb]
    assert joint_metrics(tiny_nlp, corpus)["recall@1"]["best"]["unseen"] is None


def test_discovery_changes_no_linker(tiny_nlp, corpus: Path, tmp_path: Path) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    path, before = linker.kb.path, replace(linker.fitted)
    metrics = cross_fitted_discovery(tiny_nlp, corpus, tmp_path / "lacking", share=0.3)
    assert not (tmp_path / "lacking").exists() and len(linker.kb) == len(ENTITIES)
    assert metrics["lacking"] > 0 and -1 <= metrics["ari_lacking"] <= metrics["ari_all"] <= 1
    assert metrics == cross_fitted_discovery(tiny_nlp, corpus, tmp_path / "other", share=0.3)
    assert linker.kb.path == path and linker.fitted == before


# What each mention means; capital letters are in the KB, and "" is not known.
GOLDS = ["A", "A", "b", "b", "c", "c", "", "B"]


def counted(numbers: list[int], entities: list[int]) -> dict[str, float]:
    mentions = [CorpusMention("1", i, i + 1, "x", "", "", 0.1 * (i + 1)) for i in range(len(GOLDS))]
    golds = [frozenset([g] if g else []) for g in GOLDS]
    gold = GoldMentions(mentions, np.zeros((8, 1)), golds, np.array([g.isupper() for g in GOLDS]))
    found = Clusters(np.array(numbers), np.array(entities), np.full(len(numbers), -1))
    return discovery_metrics(gold, found)


def test_what_is_proposed_is_counted() -> None:
    # b's two mentions; one of c with one unknown: not more than half; the other of c; B alone.
    metrics = counted([0, 0, 1, 1, 2, 3, 2, 4], [0, 0, -1, -1, -1, -1, -1, -1])
    assert (metrics["proposals"], metrics["found"], metrics["lacking"]) == (4, 2, 2)
    assert metrics["precision"] == metrics["precision@50"] == 0.5
    # Of {b, b}, {c}, {c}: one of two pairs is found, by chance 1 * 2 / 6.
    assert metrics["ari_lacking"] == pytest.approx((1 - 1 / 3) / (1.5 - 1 / 3))
    # An entity is found once.
    metrics = counted(list(range(8)), [0, 1, -1, -1, 1, 1, 1, 1])
    assert (metrics["proposals"], metrics["found"], metrics["precision"]) == (2, 1, 0.5)
    # Clusters of one entity are one, and nothing proposed is no error.
    metrics = counted(list(range(8)), [0, 0, 1, 1, 2, 2, 2, 3])
    assert metrics["ari_all"] == metrics["ari_lacking"] == 1.0
    assert (metrics["proposals"], metrics["precision"]) == (0, 0.0)
