"""Proposals of entities that a KB lacks, counted by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from papers.discovery_metrics import discovery_metrics, write_lacking_kb
from spacy.language import Language

from spacy_pel.fitting.fit_joint import GoldMentions
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.linking.clusters import Clusters
from spacy_pel.pipeline.joint_answers import CorpusMention

# What each mention means; capital letters are in the KB, and "" is not known.
GOLDS = ["A", "A", "b", "b", "c", "c", "", "B"]


def gold() -> GoldMentions:
    mentions = [CorpusMention("1", i, i + 1, "x", "", "", 0.1 * (i + 1)) for i in range(len(GOLDS))]
    golds = [frozenset([g] if g else []) for g in GOLDS]
    return GoldMentions(mentions, np.zeros((8, 1)), golds, np.array([g.isupper() for g in GOLDS]))


def clusters(numbers: list[int], entities: list[int]) -> Clusters:
    return Clusters(np.array(numbers), np.array(entities), np.full(len(numbers), -1))


def test_what_is_proposed_is_counted() -> None:
    # b's two mentions; one of c with one unknown: not more than half; the other of c; B alone.
    found = clusters([0, 0, 1, 1, 2, 3, 2, 4], [0, 0, -1, -1, -1, -1, -1, -1])
    metrics = discovery_metrics(gold(), found)
    assert (metrics["proposals"], metrics["found"], metrics["lacking"]) == (4, 2, 2)
    assert metrics["precision"] == metrics["precision@50"] == 0.5
    # Of {b, b}, {c}, {c}: one of two pairs is found, by chance 1 * 2 / 6.
    assert metrics["ari_lacking"] == pytest.approx((1 - 1 / 3) / (1.5 - 1 / 3))


def test_an_entity_is_found_once() -> None:
    found = clusters(list(range(8)), [0, 1, -1, -1, 1, 1, 1, 1])
    metrics = discovery_metrics(gold(), found)
    assert (metrics["proposals"], metrics["found"], metrics["precision"]) == (2, 1, 0.5)


def test_clusters_of_one_entity_are_one_and_nothing_proposed_is_no_error() -> None:
    found = clusters(list(range(8)), [0, 0, 1, 1, 2, 2, 2, 3])
    metrics = discovery_metrics(gold(), found)
    assert metrics["ari_all"] == metrics["ari_lacking"] == 1.0
    assert (metrics["proposals"], metrics["precision"]) == (0, 0.0)


def test_the_copy_lacks_a_share_and_the_kb_keeps_all(tiny_nlp: Language, tmp_path: Path) -> None:
    kb = tiny_nlp.get_pipe("proxy_linker").kb
    ids = [entity.concept_id for entity in kb]
    for seed in (0, 0, 1):
        write_lacking_kb(kb, [*ids, "unknown"], 0.5, seed, tmp_path / "kb")
    copy = KnowledgeBase.open(tmp_path / "kb")
    left = [id for id in ids if id in copy]
    assert len(left) == len(ids) - round(0.5 * len(ids))
    assert all(id in kb for id in ids) and copy.has_vectors
