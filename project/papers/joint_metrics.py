"""What joint linking and clusters of mentions are worth to a linker (ArboEL, 2.3, 3.5 and A.3).

All settings are fitted on every other document and used on the rest, and the other way round.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score
from spacy.language import Language
from spacy.training import Example

from spacy_pel.fitting.calibrate import fit
from spacy_pel.fitting.fit_joint import (
    GoldMentions,
    JointReport,
    fitted_joint,
    gold_mentions,
    mention_clusters,
    right_answers,
)
from spacy_pel.fitting.gold_examples import gold_examples, link_examples
from spacy_pel.jobs.joint_linking import clusters_of, neighbours_of, numbered_ids, with_settings
from spacy_pel.kb.vectors.matrix import VectorMatrix
from spacy_pel.linking.joint import Neighbourhood, mention_neighbours
from spacy_pel.pipeline.pipelines import linker_of
from spacy_pel.spans import gold_ids, mention_spans

from .coreference_recall import coreference_recall
from .cross_fitting import fitted_settings_kept
from .discovery_metrics import discovery_metrics, write_lacking_kb

if TYPE_CHECKING:
    from spacy_pel.linking.clusters import Clusters
    from spacy_pel.pipeline.proxy_linker import ProxyLinker

# The neighbours whose recall is measured, as in figure 3 of the paper.
NEAREST = 64


class FittedHalf(NamedTuple):
    """One half of the documents, linked one by one, with what was fitted on the other half.

    Attributes:
        report: How mentions are linked together.
        gold: The gold mentions.
    """

    report: JointReport
    gold: GoldMentions


def joint_metrics(
    nlp: Language,
    corpus: str | Path,
    *,
    component: str = "proxy_linker",
    limit: int = 0,
    names: bool = False,
) -> dict[str, Any]:
    """Score a linker whose mentions are linked together, and the clusters of their vectors.

    The linker keeps the settings that it has.

    Args:
        nlp: A pipeline with a trained linker.
        corpus: A corpus as ``corpora.document_corpus.open_corpus`` takes it.
        component: The name of the linker in the pipeline.
        limit: The number of documents taken of each corpus file. 0 takes all.
        names: Whether a weight of exact names is fitted; see ``calibrate``.

    Returns:
        ``recall@1``: for "one by one", "undirected", "directed" and "best", what was best on the
        other half, the share of mentions that are right of those whose entity the KB has
        ("in_kb"), and of those whose entity was seen in training ("seen") or not ("unseen"). ``ari``: how clusters made of mentions alone agree with
        the gold entities: "all"; "all_unseen", of the unseen entities' mentions, if all mentions
        are clustered; and "unseen", if these alone are. ``coreference_recall@64``: see
        ``coreference_recall``. A figure of nothing is None.

    Raises:
        PelError: As ``calibrate`` and ``fit_joint`` raise it; one half may not be enough.
    """
    linker = linker_of(nlp, component)
    examples = gold_examples(nlp, linker, [corpus], limit)
    trained = frozenset(linker.cfg["trained_entities"])
    with fitted_settings_kept(linker):
        halves = list(_fitted_halves(nlp, linker, examples, names, nil=False))
    return {
        "recall@1": _recall(halves, trained),
        "ari": _agreements(halves, trained),
        f"coreference_recall@{NEAREST}": _nearby([half.gold for half in halves]),
    }


def cross_fitted_discovery(
    nlp: Language,
    corpus: str | Path,
    folder: Path,
    *,
    component: str = "proxy_linker",
    limit: int = 0,
    names: bool = False,
    share: float = 0.1,
    seed: int = 0,
) -> dict[str, float]:
    """Score the proposals of a linker whose KB lacks some of the entities of a corpus.

    The linker keeps the settings that it has, and its KB.

    Args:
        nlp, corpus, component, limit, names: See ``joint_metrics``.
        folder: A folder for the KB that lacks them. It is replaced, and removed at the end.
        share: The share of the entities that is left out.
        seed: The seed by which they are drawn.

    Returns:
        The mean over both halves of what ``discovery_metrics`` returns.

    Raises:
        PelError: As ``joint_metrics`` does.
    """
    linker = linker_of(nlp, component)
    kb = linker.kb.path
    examples = gold_examples(nlp, linker, [corpus], limit)
    spans = [span for e in examples for span in mention_spans(e.reference, linker.spans_key)]
    write_lacking_kb(linker.kb, {id for s in spans for id in gold_ids(s)}, share, seed, folder)
    with fitted_settings_kept(linker):
        try:
            linker.set_kb(folder)
            found = [
                discovery_metrics(half.gold, _together(half))
                for half in _fitted_halves(nlp, linker, examples, names, nil=True)
            ]
        finally:
            linker.set_kb(kb)
            shutil.rmtree(folder, ignore_errors=True)
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


def _fitted_halves(
    nlp: Language, linker: ProxyLinker, examples: Sequence[Example], names: bool, *, nil: bool
) -> Iterator[FittedHalf]:
    """Both halves of the documents; nil: whether a mention may be NIL before it is joined."""
    for half in (0, 1):
        fit(nlp, linker, examples[half::2], names=names)
        threshold = linker.nil_threshold if nil else None
        with with_settings(linker, vectors=True, nil_threshold=threshold):
            link_examples(nlp, linker, examples)
        fitted, used = (gold_mentions(linker, examples[n::2]) for n in (half, 1 - half))
        yield FittedHalf(fitted_joint(fitted, linker.reranked), used)


def _together(half: FittedHalf) -> Clusters:
    """The clusters that entities are proposed from."""
    settings = half.report.settings
    gold = half.gold
    vectors = VectorMatrix(gold.vectors)
    return clusters_of(gold.mentions, vectors, settings, settings.discovery, gold.pairs)[0]


def _recall(halves: Sequence[FittedHalf], trained: frozenset[str]) -> dict[str, Any]:
    """The share of mentions that are right, by the way of linking and by the kind of entity."""
    in_kb = np.concatenate([half.gold.in_kb for half in halves])
    seen = np.concatenate([_seen(half.gold, trained) for half in halves])
    kinds = {"in_kb": in_kb, "seen": in_kb & seen, "unseen": in_kb & ~seen}
    found = {}
    for way in ("one by one", "undirected", "directed", "best"):
        right = np.concatenate([_right(half, way) for half in halves])
        found[way] = {kind: _mean(right[rows]) for kind, rows in kinds.items()}
    return found


def _right(half: FittedHalf, way: str) -> np.ndarray:
    """Which mentions of a half are right if they are linked in this way, bool [n]."""
    report, gold = half
    counted = {
        "one by one": Neighbourhood(0, 1.0, True),
        "undirected": report.by_direction[False],
        "directed": report.by_direction[True],
        "best": report.settings.linking,
    }[way]
    vectors = VectorMatrix(gold.vectors)
    found, ids = clusters_of(gold.mentions, vectors, report.settings, counted, gold.pairs)
    return right_answers(found.entities, ids, gold)


def _agreements(halves: Sequence[FittedHalf], trained: frozenset[str]) -> dict[str, float | None]:
    """The adjusted Rand index of clusters of mentions alone, as the mean over the halves."""
    found: dict[str, list[float]] = {"all": [], "all_unseen": [], "unseen": []}
    for report, gold in halves:
        entities = gold.entities
        known = entities >= 0
        unseen = known & ~_seen(gold, trained)
        clusters = _mention_clusters(gold, report)
        found["all"].append(adjusted_rand_score(clusters[known], entities[known]))
        if unseen.any():
            alone = _mention_clusters(gold, report, np.flatnonzero(unseen))
            found["all_unseen"].append(adjusted_rand_score(clusters[unseen], entities[unseen]))
            found["unseen"].append(adjusted_rand_score(alone, entities[unseen]))
    return {name: _mean(values) for name, values in found.items()}


def _mention_clusters(
    gold: GoldMentions, report: JointReport, places: np.ndarray | None = None
) -> np.ndarray:
    """The clusters of gold mentions, or of those at some places, made of mentions alone."""
    places = np.arange(len(gold.mentions)) if places is None else places
    counted = report.settings.discovery
    vectors = VectorMatrix(gold.vectors[places])
    neighbours = neighbours_of(vectors, counted.k, gold.pairs and gold.pairs.of(places))
    return mention_clusters(neighbours, report.settings, counted)


def _nearby(golds: Sequence[GoldMentions]) -> float | None:
    """The share of coreferent mentions of all documents that are near to each other."""
    vectors = VectorMatrix(np.concatenate([gold.vectors for gold in golds]))
    ids = [min(ids, default="") for gold in golds for ids in gold.golds]
    nearest = mention_neighbours(vectors, NEAREST)
    return coreference_recall(nearest.numbers, numbered_ids(ids)[1])


def _seen(gold: GoldMentions, trained: frozenset[str]) -> np.ndarray:
    """Whether the entity of each mention was seen in training, bool [n]."""
    return np.array([not trained.isdisjoint(golds) for golds in gold.golds], dtype=bool)


def _mean(values: Sequence[float] | np.ndarray) -> float | None:
    return float(np.mean(values)) if len(values) else None
