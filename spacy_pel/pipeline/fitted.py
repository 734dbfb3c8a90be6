"""What ``pel calibrate`` fits to a linker's scores, as the linker keeps and saves it."""

from __future__ import annotations

from dataclasses import dataclass, fields
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

    def forget_scores(self) -> None:
        """Drop all but the NIL threshold: some weights have changed."""
        self.calibration = self.rerank_weight = self.name_weight = self.joint = None

    def forget_threshold(self) -> None:
        """Take the NIL threshold of the config again: the retriever's weights have changed."""
        self.nil_threshold = self.configured_nil_threshold

    def as_data(self) -> dict[str, Any]:
        """All of it as plain data, for JSON."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

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


def _plain(value: Any) -> Any:
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
