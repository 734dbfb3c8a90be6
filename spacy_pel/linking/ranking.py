"""The learnt ranking of candidates, which ``pel calibrate`` fits: see ``features``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from .features import Features, LabelPriors, features_of
from .reranking import Found, Ordered, group_means, in_order

if TYPE_CHECKING:
    from ..models.ranker import Ranker

_SHOWN = 10  # labels in a message


class Ranking(NamedTuple):
    """Orders the best candidates of a mention, and says how probable each is, and that none is right.

    Attributes:
        ranker: The network.
        priors: What a mention's label says.
        labels: How many mentions of each label it was fitted on.
        reranked: The number of candidates that were reranked when it was fitted; 0 if none were. It
            applies only while the linker reranks this number.
    """

    ranker: Ranker
    priors: LabelPriors
    labels: Mapping[str, int]
    reranked: int = 0

    def on(self, kb: KnowledgeBase, labels: Sequence[str]) -> KBRanking:
        """What orders the candidates of mentions that have these labels."""
        return KBRanking(self, kb, labels)

    def probabilities(self, features: Features) -> np.ndarray:
        """The probability of each candidate and, last, that none is right: float32 [n, k + 1].

        A ranking that was fitted before there were the last features does not look at them.
        """
        n_candidate, n_mention = (
            len(mean) - 1 for mean in (self.ranker.candidate_mean, self.ranker.mention_mean)
        )
        known = features._replace(
            candidates=features.candidates[..., :n_candidate],
            mentions=features.mentions[:, :n_mention],
        )
        return self.ranker.probabilities(*known.with_priors(self.priors))

    def unknown(self, labels: Iterable[str]) -> list[str]:
        """Those of the labels that no mention had that it was fitted on, ignoring case, sorted.

        None of them if it knows no label at all: then labels are named in another way, and say
        nothing about the mentions.
        """
        known = {label.casefold() for label in self.labels}
        labels = set(labels)
        unknown = {label for label in labels if label.casefold() not in known}
        return sorted(unknown) if unknown != labels else []

    @property
    def fitted_on(self) -> str:
        """The labels with their counts, the most frequent first."""
        labels = sorted(self.labels.items(), key=lambda pair: (-pair[1], pair[0]))
        shown = ", ".join(f"{label} ({count:,})" for label, count in labels[:_SHOWN])
        return f"{shown} and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else shown

    def as_data(self) -> dict[str, Any]:
        """All of it as plain data, for JSON."""
        return {
            "ranker": self.ranker.as_data(),
            "priors": self.priors._asdict(),
            "labels": dict(self.labels),
            "reranked": self.reranked,
        }

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Ranking:
        """The ranking that ``as_data`` described."""
        from ..models.ranker import Ranker  # here: torch takes seconds

        ranker, priors = Ranker.of(data["ranker"]), LabelPriors(**data["priors"])
        return cls(ranker, priors, data["labels"], data["reranked"])


class KBRanking(NamedTuple):
    """A ranking of the candidates of mentions that have these labels."""

    ranking: Ranking
    kb: KnowledgeBase  # where the candidates' names and types are
    labels: Sequence[str]

    def ordered(self, found: Found) -> Ordered:
        """The best candidates by their probabilities; equal ones, and the others, stay in order."""
        features = features_of(self.kb, self.labels, found)
        given = self.ranking.probabilities(features)
        if found.groups is not None:
            given = group_means(given, found.groups)
        chances = np.full(found.candidates.scores.shape, np.nan, dtype=np.float32)
        chances[:, : given.shape[1] - 1] = given[:, :-1]
        order = np.argsort(-np.nan_to_num(chances, nan=-1.0), kind="stable", axis=1)
        (chances,) = in_order(order, chances)
        return Ordered(order, chances, 1 - given[:, -1])
