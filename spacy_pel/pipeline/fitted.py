"""What ``pel calibrate`` fits to a linker's scores, as the linker keeps and saves it."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar

from ..linking.calibration import Calibration, FittedWeight
from ..linking.joint import JointSettings, Neighbourhood

# What holds only while as many candidates are reranked as when it was fitted.
FittedScore = TypeVar("FittedScore", Calibration, FittedWeight, JointSettings)


@dataclass
class Fitted:
    """What was fitted to the scores of a linker on dev; None for what was not.

    Attributes:
        nil_threshold: A mention whose best score by the retriever is below it is NIL. None: no
            mention is.
        configured_nil_threshold: The threshold that the config names, which counts until one is
            fitted, and again when the retriever's weights have changed.
        calibration: Turns scores into probabilities.
        rerank_weight: Multiplies the cross-encoder's score before the retriever's is added; None:
            it counts as in training, by 1.
        name_weight: Is added to the score of a candidate that has the mention as a name.
        joint: How the mentions of a corpus are linked together.
    """

    nil_threshold: float | None = None
    configured_nil_threshold: float | None = None
    calibration: Calibration | None = None
    rerank_weight: FittedWeight | None = None
    name_weight: FittedWeight | None = None
    joint: JointSettings | None = None

    def forget(self, *, keep_threshold: bool) -> None:
        """Drop what was fitted: weights have changed. The threshold is of the retriever's alone."""
        self.calibration = self.rerank_weight = self.name_weight = self.joint = None
        if not keep_threshold:
            self.nil_threshold = self.configured_nil_threshold

    def as_data(self) -> dict[str, Any]:
        """All of it as JSON gives it back."""
        return json.loads(json.dumps(vars(self)))

    @classmethod
    def of(cls, saved: dict[str, Any], configured: float | None) -> Fitted:
        """What ``as_data`` made, which may lack what linkers of before had not.

        The threshold that the config names now takes the place of the saved one, unless the config
        named the same one then.
        """
        fitted = cls(**{field.name: saved.get(field.name) for field in fields(cls)})
        fitted.calibration = fitted.calibration and Calibration(*fitted.calibration)
        fitted.rerank_weight = fitted.rerank_weight and FittedWeight(*fitted.rerank_weight)
        fitted.name_weight = fitted.name_weight and FittedWeight(*fitted.name_weight)
        if fitted.joint:
            slope, intercept, linking, discovery, *more = fitted.joint
            kinds = Neighbourhood(*linking), Neighbourhood(*discovery)
            fitted.joint = JointSettings(slope, intercept, *kinds, *more)
        if configured not in (None, fitted.configured_nil_threshold):
            fitted.nil_threshold = fitted.configured_nil_threshold = configured
        return fitted


def fitted_value(name: str) -> property:
    """A property of a linker: a value of its ``fitted``."""

    def set_value(linker: Any, value: Any) -> None:
        setattr(linker.fitted, name, value)

    return property(attrgetter(f"fitted.{name}"), set_value)
