"""How the mentions of a corpus are linked together, fitted to gold mentions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.training import Example

from ..batch.joint_linking import numbered_ids, with_settings
from ..errors import PelError
from ..evaluation.evaluate import Bars, link_examples
from ..metrics.calibration import platt_fit
from ..pipeline.joint_annotations import CorpusMention, take_mentions
from ..spans import gold_ids, mention_spans

if TYPE_CHECKING:
    from ..coreference.joint import JointSettings, Neighbourhood
    from ..kb.vectors.index import Candidates
    from ..pipeline.proxy_linker import ProxyLinker

_NEIGHBOURS = (1, 2, 4, 8)
_LEAST = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)


class JointReport(NamedTuple):
    """What was fitted, with figures of the mentions that it was fitted to."""

    settings: JointSettings
    # The share of mentions that are right when they are linked one by one; one whose entity the KB
    # lacks is right if it is NIL.
    accuracy_alone: float
    accuracy: float  # the same, linked jointly
    agreement: float  # the adjusted Rand index of clusters of mentions alone with the gold entities
    # The neighbours with the best accuracy, directed (True) and undirected; none if they gain nothing.
    by_direction: dict[bool, Neighbourhood]


class GoldMentions(NamedTuple):
    """Linked gold mentions of a corpus."""

    mentions: list[CorpusMention]  # each linked by itself
    vectors: np.ndarray  # float32 [n, d]
    # The ids of each that are right: those of the KB, or if it has none, as they were given.
    golds: list[frozenset[str]]
    in_kb: np.ndarray  # bool [n], whether the KB has any of them

    @property
    def entities(self) -> np.ndarray:
        """A number of what each mention means, int64 [n]; -1 where no id was given."""
        return numbered_ids([min(golds, default="") for golds in self.golds])[1]


def fit_joint(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    progress: Bars | None = None,
) -> JointReport:
    """Set how a linker, calibrated on the same examples, links mentions together; see ``fitted_joint``.

    The examples (``gold_examples``) are linked in place.
    """
    with with_settings(linker.output, vectors=True):
        link_examples(nlp, linker, examples, progress)
    report = fitted_joint(gold_mentions(linker, examples), linker.reranked)
    linker.joint = report.settings
    return report


def fitted_joint(gold: GoldMentions, reranked: int = 0) -> JointReport:
    """Fit how mentions are linked together by a linker that reranks so many candidates.

    The probability that two mentions mean the same is a sigmoid of their cosine, fitted to the 8
    nearest mentions of each gold mention. Then all numbers of neighbours, thresholds and directions
    are tried. Those with the best accuracy are for linking. For discovery it is those whose clusters, made
    of mentions alone, agree best with the gold entities. Of equals the first is taken.

    Raises:
        PelError: No two mentions near to each other mean the same, or all do.
    """
    from sklearn.metrics import adjusted_rand_score  # here: it takes a second

    from ..coreference.joint import (
        MAX_NEIGHBOURS,
        JointSettings,
        Neighbourhood,
        joint_clusters,
        mention_neighbours,
    )
    from ..kb.vectors.matrix import VectorMatrix

    neighbours = mention_neighbours(VectorMatrix(gold.vectors), MAX_NEIGHBOURS)
    none = Neighbourhood(0, 1.0, True)
    settings = JointSettings(*_same_meaning(neighbours, gold.golds), none, none, reranked)
    ids, said = numbered_ids([mention.id for mention in gold.mentions])
    probabilities = np.array([mention.probability for mention in gold.mentions])
    meant = gold.entities

    def accuracy(counted: Neighbourhood) -> float:
        found = joint_clusters(neighbours, said, probabilities, settings, counted)
        return float(np.mean(right_answers(found.entities, ids, gold)))

    def agreement(counted: Neighbourhood) -> float:
        """How clusters of mentions alone agree with the gold entities, where these are given."""
        numbers = mention_clusters(neighbours, settings, counted)
        return adjusted_rand_score(numbers[meant >= 0], meant[meant >= 0])

    tried = [none, *(Neighbourhood(*t) for t in product(_NEIGHBOURS, _LEAST, (True, False)))]
    accuracies = {kind: accuracy(kind) for kind in tried}
    agreements = {kind: agreement(kind) for kind in tried if not kind.directed}
    by_direction = {
        way: max([none, *(kind for kind in tried if kind.directed is way)], key=accuracies.get)
        for way in (True, False)
    }
    linking = max(accuracies, key=accuracies.get)
    discovery = max(agreements, key=agreements.get)
    best = settings._replace(linking=linking, discovery=discovery)
    figures = accuracies[none], accuracies[linking], agreements[discovery]
    return JointReport(best, *figures, by_direction)


def gold_mentions(linker: ProxyLinker, examples: Sequence[Example]) -> GoldMentions:
    """The gold mentions of examples that were linked with the setting ``vectors``."""
    mentions, vectors, golds, in_kb = [], [], [], []
    for number, example in enumerate(examples, start=1):
        own, of_own = take_mentions(example.predicted, str(number), linker.spans_key)
        mentions += own
        vectors += list(of_own)
        for span in mention_spans(example.reference, linker.spans_key):
            ids = gold_ids(span)
            numbers = [n for n in map(linker.kb.number, ids) if n is not None]
            golds.append(frozenset(id for id, _ in linker.kb.labels(numbers)) or frozenset(ids))
            in_kb.append(bool(numbers))
    return GoldMentions(mentions, np.array(vectors, np.float32), golds, np.array(in_kb, bool))


def _same_meaning(neighbours: Candidates, golds: Sequence[frozenset[str]]) -> tuple[float, ...]:
    """Slope and intercept of the log-odds that a mention and one near to it mean the same."""
    there = neighbours.numbers >= 0
    pairs = zip(np.nonzero(there)[0].tolist(), neighbours.numbers[there].tolist())
    same = [not golds[a].isdisjoint(golds[b]) for a, b in pairs]
    if all(same) or not any(same):
        problem = (
            f"of {len(same):,} pairs of mentions near to each other {sum(same):,} mean the same"
        )
        raise PelError(f"{problem}, so no probability can be fitted", "give a larger corpus")
    return platt_fit(neighbours.scores[there], same)


def right_answers(entities: np.ndarray, ids: Sequence[str], gold: GoldMentions) -> np.ndarray:
    """Which gold mentions are right, bool [n]; one whose entity the KB lacks, if it is NIL.

    ``entities``, int64 [n], are places in ``ids``; -1 for NIL.
    """
    said = [ids[entity] if entity >= 0 else None for entity in entities.tolist()]
    known = zip(said, gold.golds, gold.in_kb.tolist())
    return np.array([id in golds if in_kb else id is None for id, golds, in_kb in known], bool)


def mention_clusters(
    neighbours: Candidates, settings: JointSettings, counted: Neighbourhood
) -> np.ndarray:
    """The clusters of n mentions without any entity, int64 [n]; see ``joint_clusters`` (ArboEL, 3.5)."""
    from ..coreference.joint import joint_clusters

    n = len(neighbours.numbers)
    none = np.full(n, -1, dtype=np.int64)
    return joint_clusters(neighbours, none, np.zeros(n), settings, counted).numbers
