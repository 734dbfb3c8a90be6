"""Measure joint linking and discovery (ArboEL, sections 2.3, 3.5, and A.3).

Settings are fitted to one half of the documents and used on the other, and the other way round.
"""

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score
from spacy.language import Language
from spacy.training import Example

from spacy_pel.batch.discover import proposals
from spacy_pel.batch.joint_linking import clusters_of, with_settings
from spacy_pel.calibration.calibrate import fit
from spacy_pel.calibration.fit_joint import (
    GoldMentions,
    JointReport,
    fitted_joint,
    gold_mentions,
    linked_correctly,
)
from spacy_pel.coreference.clusters import Clusters
from spacy_pel.coreference.joint import Neighbourhood
from spacy_pel.evaluation.evaluate import gold_examples, link_examples
from spacy_pel.kb.change import remove_entities
from spacy_pel.kb.vectors.matrix import VectorMatrix
from spacy_pel.pipeline.pipelines import linker_of
from spacy_pel.spans import gold_ids, mention_spans


def joint_metrics(nlp: Language, corpus: str | Path, *, limit: int = 0) -> dict[str, Any]:
    """Score a linker whose mentions are linked together. The settings of the linker stay.

    ``recall@1`` has for each method the share of correct mentions among those whose entity is in the KB, or
    None without any. "best" is the best method on the other half. PelError if one half does not suffice to
    calibrate.
    """
    linker = linker_of(nlp)
    trained = frozenset(linker.cfg["trained_entities"])
    right: defaultdict[str, list[bool]] = defaultdict(list)
    used = []
    examples = gold_examples(nlp, linker, [corpus], limit)
    for report, gold in _fitted_halves(nlp, examples, nil=False):
        used.append(gold)
        for way, counted in {
            "one by one": Neighbourhood(0, 1.0, True),
            "undirected": report.by_direction[False],
            "directed": report.by_direction[True],
            "best": report.settings.linking,
        }.items():
            vectors = VectorMatrix(gold.vectors)
            found, ids = clusters_of(gold.mentions, vectors, report.settings, counted)
            right[way] += linked_correctly(found.entities, ids, gold).tolist()
    in_kb = np.concatenate([gold.in_kb for gold in used])
    seen = np.array([not trained.isdisjoint(ids) for gold in used for ids in gold.golds], bool)
    groups = {"in_kb": in_kb, "seen": in_kb & seen, "unseen": in_kb & ~seen}
    return {
        "recall@1": {
            way: {name: _mean(np.array(each)[group]) for name, group in groups.items()}
            for way, each in right.items()
        }
    }


def cross_fitted_discovery(
    nlp: Language, corpus: str | Path, folder: Path, *, limit: int = 0, share: float = 0.1
) -> dict[str, float]:
    """Score the proposals of a linker whose KB lacks a fixed share of the entities of a corpus.

    The settings and the KB of the linker stay. The KB without these entities is built in the folder and
    removed at the end. The result is the mean of ``discovery_metrics`` over both halves.
    """
    linker = linker_of(nlp)
    kb = linker.kb
    examples = gold_examples(nlp, linker, [corpus], limit)
    spans = [span for e in examples for span in mention_spans(e.reference, linker.spans_key)]
    there = sorted({kb[id].concept_id for span in spans for id in gold_ids(span) if id in kb})
    drawn = np.random.default_rng(0).permutation(there)[: round(share * len(there))]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kb.path, folder)
    remove_entities(folder, drawn.tolist())
    try:
        linker.set_kb(folder)
        found = []
        for report, gold in _fitted_halves(nlp, examples, nil=True):
            parts = gold.mentions, VectorMatrix(gold.vectors), report.settings
            clusters, _ = clusters_of(*parts, report.settings.discovery)
            found.append(discovery_metrics(gold, clusters))
    finally:
        linker.set_kb(kb.path)
        shutil.rmtree(folder, ignore_errors=True)
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


def _fitted_halves(
    nlp: Language, examples: Sequence[Example], *, nil: bool
) -> Iterator[tuple[JointReport, GoldMentions]]:
    """Return both halves of the documents, linked one by one, with the fit to the other half.

    nil: whether a mention may be NIL before it is joined.
    """
    linker = linker_of(nlp)
    with with_settings(linker, fitted=replace(linker.fitted)):
        for half in (0, 1):
            fit(nlp, linker, examples[half::2])
            threshold = linker.nil_threshold if nil else None
            with (
                with_settings(linker.output, vectors=True),
                with_settings(linker, nil_threshold=threshold),
            ):
                link_examples(nlp, linker, examples)
            fitted, used = (gold_mentions(linker, examples[n::2]) for n in (half, 1 - half))
            yield fitted_joint(fitted, linker.reranked), used


def discovery_metrics(gold: GoldMentions, found: Clusters) -> dict[str, float]:
    """Score the clusters of gold mentions of a corpus, and the proposals from them.

    A proposal is correct if more than half of its mentions mean one entity that the KB lacks, and no earlier
    proposal is that entity. Clusters of the same entity are one. ``ari_all`` and
    ``ari_lacking`` are the adjusted Rand index of the clusters with the gold entities, over all
    mentions and over those whose entity the KB lacks.
    """
    entities = gold.entities
    known = entities >= 0
    lacking = known & ~gold.in_kb
    alone = found.entities.max(initial=-1) + 1 + found.numbers
    numbers = np.where(found.entities < 0, alone, found.entities)
    proposed: set[int] = set()
    right = []
    for own in proposals(gold.mentions, found):
        meant = Counter(entities[place] for place in own.members if lacking[place])
        entity, count = meant.most_common(1)[0] if meant else (-1, 0)
        right.append(2 * count > len(own.members) and entity not in proposed)
        if right[-1]:
            proposed.add(entity)
    return {
        "ari_all": adjusted_rand_score(numbers[known], entities[known]),
        "ari_lacking": adjusted_rand_score(numbers[lacking], entities[lacking]),
        "precision": _mean(right) or 0.0,
        **{f"precision@{n}": _mean(right[:n]) or 0.0 for n in (50, 200)},
        "proposals": len(right),
        "found": sum(right),
        "lacking": len(np.unique(entities[lacking])),
    }


def _mean(values: Sequence[float] | np.ndarray) -> float | None:
    return float(np.mean(values)) if len(values) else None
