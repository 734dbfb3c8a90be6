"""What ``pel calibrate`` fits to a linker's scores, as the linker keeps and saves it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

from ..coreference.joint import JointSettings, Neighbourhood
from ..linking.ranking import Ranking

# What holds only while as many candidates are reranked as when it was fitted.
FittedScore = TypeVar("FittedScore", Ranking, JointSettings)


@dataclass
class Fitted:
    """What was fitted to the scores of a linker on dev; None for what was not.

    Attributes:
        nil_threshold: A mention is NIL if its best score by the retriever is below it; with a ranking,
            if the probability is that a candidate is right. None: no mention is.
        configured_nil_threshold: The threshold that the config names, which counts until one is
            fitted, and again when the retriever's weights have changed.
        ranking: Orders candidates, and says how probable they are.
        joint: How the mentions of a corpus are linked together.
    """

    nil_threshold: float | None = None
    configured_nil_threshold: float | None = None
    ranking: Ranking | None = None
    joint: JointSettings | None = None

    def forget(self, *, keep_threshold: bool) -> None:
        """Drop what was fitted: weights have changed. The threshold is of the retriever's alone."""
        keep_threshold = keep_threshold and self.ranking is None
        self.ranking = self.joint = None
        if not keep_threshold:
            self.nil_threshold = self.configured_nil_threshold

    def as_data(self) -> dict[str, Any]:
        """All of it as JSON gives it back."""
        ranking = self.ranking and self.ranking.as_data()
        return json.loads(json.dumps(vars(self) | {"ranking": ranking}))

    @classmethod
    def of(cls, saved: dict[str, Any], configured: float | None) -> Fitted:
        """What ``as_data`` made.

        The threshold that the config names now takes the place of the saved one, unless the config
        named the same one then.
        """
        fitted = cls(saved["nil_threshold"], saved["configured_nil_threshold"])
        fitted.ranking = Ranking.of(saved["ranking"]) if saved["ranking"] else None
        if saved["joint"]:
            slope, intercept, linking, discovery, reranked = saved["joint"]
            kinds = Neighbourhood(*linking), Neighbourhood(*discovery)
            fitted.joint = JointSettings(slope, intercept, *kinds, reranked)
        if configured not in (None, fitted.configured_nil_threshold):
            fitted.nil_threshold = fitted.configured_nil_threshold = configured
        return fitted


def fitted_value(name: str) -> property:
    """A property of a linker: a value of its ``fitted``."""

    def set_value(linker: Any, value: Any) -> None:
        setattr(linker.fitted, name, value)

    return property(attrgetter(f"fitted.{name}"), set_value)
