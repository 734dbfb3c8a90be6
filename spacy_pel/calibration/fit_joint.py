"""Fit joint linking, which links all mentions of a corpus together, to gold mentions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.training import Example

from ..batch.document_blocks import NoBar
from ..batch.joint_linking import numbered_ids, with_settings
from ..errors import PelError
from ..evaluation.evaluate import Bars, link_examples
from ..metrics.probabilities import platt_fit
from ..pipeline.joint_annotations import CorpusMention, take_mentions
from ..spans import gold_ids, mention_spans

if TYPE_CHECKING:
    from ..coreference.joint import JointSettings, Neighbourhood
    from ..kb.vectors.index import Candidates
    from ..pipeline.proxy_linker import ProxyLinker

# The settings to try.
_NEIGHBOURS = (1, 2, 4, 8)
_MIN_PROBABILITIES = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)


class JointReport(NamedTuple):
    """The fitted settings, with figures on the mentions that they were fitted to."""

    settings: JointSettings
    accuracy_alone: float  # the accuracy of mentions linked one by one (``linked_correctly``)
    accuracy: float  # the same, linked jointly
    # The adjusted Rand index of clusters of mentions, without entities, and gold entities.
    agreement: float
    # The neighbourhood with the best accuracy, directed (True) and undirected; without neighbours if these
    # gain nothing.
    by_direction: dict[bool, Neighbourhood]


class GoldMentions(NamedTuple):
    """Linked gold mentions of a corpus."""

    mentions: list[CorpusMention]  # each linked individually
    vectors: np.ndarray  # float32 [n, d]
    # The gold ids of each mention: the ids in the KB, or the original ones if the KB has none of them.
    golds: list[frozenset[str]]
    in_kb: np.ndarray  # bool [n], whether the KB has any of them

    @property
    def entities(self) -> np.ndarray:
        """The number of the gold entity of each mention, int64 [n]; -1 without a gold id."""
        return numbered_ids([min(golds, default="") for golds in self.golds])[1]


def fit_joint(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    progress: Bars = NoBar,
) -> JointReport:
    """Fit joint linking of a linker that was calibrated on the same examples (``fitted_joint``).

    The examples of ``gold_examples`` are linked in place.
    """
    with with_settings(linker.output, vectors=True):
        link_examples(nlp, linker, examples, progress)
    report = fitted_joint(gold_mentions(linker, examples), linker.reranked)
    linker.joint = report.settings
    return report


def fitted_joint(gold: GoldMentions, reranked: int = 0) -> JointReport:
    """Fit joint linking to gold mentions.

    The probability that two mentions have the same entity is a sigmoid of their cosine, fitted to the 8
    nearest mentions of each gold mention. Then all numbers of neighbours, thresholds, and directions
    are tried. Linking gets the settings with the best accuracy. Discovery gets the settings whose
    clusters of mentions, without entities, agree best with the gold entities. Ties go to the first.

    Args:
        gold: The mentions, each linked individually.
        reranked: The number of candidates that the linker reranks.

    Raises:
        PelError: All pairs of near mentions have the same entity, or none has.
    """
    from sklearn.metrics import adjusted_rand_score  # here, because it takes a second

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
    slope, intercept = _same_entity_odds(neighbours, gold.golds)
    settings = JointSettings(slope, intercept, none, none, reranked)
    ids, entities = numbered_ids([mention.id for mention in gold.mentions])
    probabilities = np.array([mention.probability for mention in gold.mentions])
    golds = gold.entities
    has_gold, no_entities = golds >= 0, np.full(len(golds), -1, dtype=np.int64)
    accuracies: dict[Neighbourhood, float] = {}
    agreements: dict[Neighbourhood, float] = {}
    for k, probability, directed in [
        (0, 1.0, True),
        *product(_NEIGHBOURS, _MIN_PROBABILITIES, (True, False)),
    ]:
        tried = Neighbourhood(k, probability, directed)
        clusters = joint_clusters(neighbours, entities, probabilities, settings, tried)
        accuracies[tried] = float(np.mean(linked_correctly(clusters.entities, ids, gold)))
        if not directed:
            alone = joint_clusters(
                neighbours, no_entities, np.zeros(len(golds)), settings, tried
            )  # ArboEL, section 3.5
            agreements[tried] = adjusted_rand_score(alone.numbers[has_gold], golds[has_gold])
    by_direction = {
        directed: max(
            (tried for tried in accuracies if tried.directed is directed or tried == none),
            key=accuracies.__getitem__,
        )
        for directed in (True, False)
    }
    linking = max(accuracies, key=accuracies.__getitem__)
    discovery = max(agreements, key=agreements.__getitem__)
    return JointReport(
        settings._replace(linking=linking, discovery=discovery),
        accuracies[none],
        accuracies[linking],
        agreements[discovery],
        by_direction,
    )


def gold_mentions(linker: ProxyLinker, examples: Sequence[Example]) -> GoldMentions:
    """Return the gold mentions of examples that were linked with the setting ``vectors``."""
    mentions, vectors, golds, in_kb = [], [], [], []
    for number, example in enumerate(examples, start=1):
        of_doc, doc_vectors = take_mentions(example.predicted, str(number), linker.spans_key)
        mentions += of_doc
        vectors += list(doc_vectors)
        for span in mention_spans(example.reference, linker.spans_key):
            ids = gold_ids(span)
            numbers = [n for n in map(linker.kb.number, ids) if n is not None]
            golds.append(frozenset(id for id, _ in linker.kb.labels(numbers)) or frozenset(ids))
            in_kb.append(bool(numbers))
    return GoldMentions(mentions, np.array(vectors, np.float32), golds, np.array(in_kb, bool))


def _same_entity_odds(
    neighbours: Candidates, golds: Sequence[frozenset[str]]
) -> tuple[float, float]:
    """Return the slope and intercept of the log-odds that near mentions have the same entity."""
    present = neighbours.numbers >= 0
    pairs = zip(np.nonzero(present)[0].tolist(), neighbours.numbers[present].tolist())
    same = [not golds[a].isdisjoint(golds[b]) for a, b in pairs]
    if all(same) or not any(same):
        problem = f"{sum(same):,} of {len(same):,} pairs of similar mentions have the same entity"
        raise PelError(f"{problem}, so no probability can be fitted", "give a larger corpus")
    return platt_fit(neighbours.scores[present], same)


def linked_correctly(entities: np.ndarray, ids: Sequence[str], gold: GoldMentions) -> np.ndarray:
    """Return which gold mentions are linked correctly, bool [n].

    A mention whose entity the KB lacks is correct if it is NIL. ``entities``, int64 [n], are positions in
    ``ids``, or -1 for NIL.
    """
    predicted = [ids[entity] if entity >= 0 else None for entity in entities.tolist()]
    triples = zip(predicted, gold.golds, gold.in_kb.tolist())
    return np.array([id in golds if in_kb else id is None for id, golds, in_kb in triples], bool)
