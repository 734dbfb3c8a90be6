"""The results of ``pel calibrate`` as a linker keeps and saves them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

from ..coreference.joint import JointSettings, Neighbourhood
from ..linking.ranking import Ranking

# Parameters that apply only while the linker reranks as many candidates as when they were fitted.
FittedScore = TypeVar("FittedScore", Ranking, JointSettings)


@dataclass
class Fitted:
    """The parameters that were fitted to the scores of a linker; None if not fitted.

    Attributes:
        nil_threshold: A mention is NIL if the best score of the retriever is lower, or with a ranking the
            probability that a candidate is correct. None: no mention is NIL.
        configured_nil_threshold: The threshold of the config. It applies until one is fitted, and again
            after the retriever's weights have changed.
        ranking: Orders candidates and computes their probabilities.
        joint: The settings of joint linking.
    """

    nil_threshold: float | None = None
    configured_nil_threshold: float | None = None
    ranking: Ranking | None = None
    joint: JointSettings | None = None

    def forget(self, *, keep_threshold: bool) -> None:
        """Drop the parameters because weights have changed.

        A threshold without a ranking depends on the retriever alone, so it may be kept when the reranker
        changes.
        """
        keep_threshold = keep_threshold and self.ranking is None
        self.ranking = self.joint = None
        if not keep_threshold:
            self.nil_threshold = self.configured_nil_threshold

    def as_data(self) -> dict[str, Any]:
        """Return the parameters as plain data for JSON."""
        ranking = self.ranking and self.ranking.as_data()
        data: dict[str, Any] = json.loads(json.dumps(vars(self) | {"ranking": ranking}))
        return data

    @classmethod
    def of(cls, saved: dict[str, Any], configured: float | None) -> Fitted:
        """Restore the parameters from ``as_data``.

        A threshold that the config has changed since then replaces the saved one.
        """
        fitted = cls(saved["nil_threshold"], saved["configured_nil_threshold"])
        fitted.ranking = Ranking.of(saved["ranking"]) if saved["ranking"] else None
        if saved["joint"]:
            slope, intercept, linking, discovery, reranked = saved["joint"]
            fitted.joint = JointSettings(
                slope, intercept, Neighbourhood(*linking), Neighbourhood(*discovery), reranked
            )
        if configured not in (None, fitted.configured_nil_threshold):
            fitted.nil_threshold = fitted.configured_nil_threshold = configured
        return fitted


def fitted_value(name: str) -> property:
    """Return a property of a linker that reads and sets a value of its ``fitted``."""
    return property(
        attrgetter(f"fitted.{name}"), lambda linker, value: setattr(linker.fitted, name, value)
    )
