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
    """Orders the best candidates of a mention, and says how probable each is, and that none is right."""

    ranker: Ranker  # the network
    priors: LabelPriors  # what a mention's label says
    labels: Mapping[str, int]  # how many mentions of each label it was fitted on
    # The number of candidates that were reranked when it was fitted. It applies only while the linker
    # reranks this number.
    reranked: int = 0

    def ordered(self, kb: KnowledgeBase, labels: Sequence[str], found: Found) -> Ordered:
        """The best candidates by their probabilities; equal ones, and the others, stay in order.

        ``kb`` has their names and types. ``labels`` are those of the mentions.
        """
        given = self.probabilities(features_of(kb, labels, found))
        if found.groups is not None:
            given = group_means(given, found.groups)
        chances = np.full(found.candidates.scores.shape, np.nan, dtype=np.float32)
        chances[:, : given.shape[1] - 1] = given[:, :-1]
        order = np.argsort(-np.nan_to_num(chances, nan=-1.0), kind="stable", axis=1)
        (chances,) = in_order(order, chances)
        return Ordered(order, chances, 1 - given[:, -1])

    def probabilities(self, features: Features) -> np.ndarray:
        """The probability of each candidate and, last, that none is right: float32 [n, k + 1].

        A ranking that was fitted before there were the last features does not look at them.
        """
        means = self.ranker.candidate_mean, self.ranker.mention_mean
        of_candidates, of_mentions = (slice(len(mean) - 1) for mean in means)
        known = features._replace(
            candidates=features.candidates[..., of_candidates],
            mentions=features.mentions[:, of_mentions],
        )
        return self.ranker.probabilities(*known.with_priors(self.priors))

    def unknown(self, labels: Iterable[str]) -> list[str]:
        """Those of the labels that no mention had that it was fitted on, ignoring case, sorted.

        None if it knows none of the labels: then they are named in another way.
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
