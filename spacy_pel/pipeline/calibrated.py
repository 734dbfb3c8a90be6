"""What ``pel calibrate`` fits to a linker's scores, as the linker keeps it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any, TypeVar

from ..linking.calibration import Calibration, FittedWeight
from ..linking.exact_names import ExactNameBonus, SoleOwnersFirst
from ..linking.joint import JointSettings, Neighbourhood
from ..linking.reranking import Reranking
from .encoders import EncodersPipe
from .saving import Saved, SavedFile, content

logger = logging.getLogger(__name__)

Fitted = TypeVar("Fitted", Calibration, FittedWeight, JointSettings)

# A linker before it is calibrated, and one that was saved before calibration existed.
NOT_CALIBRATED = {
    "nil_threshold": None,
    "configured_nil_threshold": None,
    "calibration": None,
    "rerank_weight": None,
    "name_weight": None,
    "joint": None,
}


class CalibratedPipe(EncodersPipe):
    """A linker that keeps what ``pel calibrate`` fitted to its scores on dev.

    Attributes:
        cfg: What was fitted, as plain data that is saved with the weights. A subclass keeps more
            there.
    """

    name: str
    cfg: dict[str, Any]
    _said_of: frozenset[str] = frozenset()  # labels that a warning was given for

    @property
    def nil_threshold(self) -> float | None:
        """A mention whose best score by the retriever is below it is NIL. None: no mention is."""
        return self.cfg["nil_threshold"]

    @nil_threshold.setter
    def nil_threshold(self, threshold: float | None) -> None:
        self.cfg["nil_threshold"] = threshold

    @property
    def calibration(self) -> Calibration | None:
        """Turns scores into probabilities; None before ``pel calibrate``.

        It is used only while the linker reranks as many candidates as when it was fitted.
        """
        return self.cfg["calibration"] and Calibration(*self.cfg["calibration"])

    @calibration.setter
    def calibration(self, calibration: Calibration | None) -> None:
        self.cfg["calibration"] = calibration and list(calibration)
        self._said_of = frozenset()

    @property
    def rerank_weight(self) -> FittedWeight | None:
        """Multiplies the cross-encoder's score before the retriever's is added.

        None before ``pel calibrate``: the weight is 1, as in training.
        """
        return self.cfg["rerank_weight"] and FittedWeight(*self.cfg["rerank_weight"])

    @rerank_weight.setter
    def rerank_weight(self, weight: FittedWeight | None) -> None:
        self.cfg["rerank_weight"] = weight and list(weight)

    @property
    def name_weight(self) -> FittedWeight | None:
        """Is added to the score of a candidate that has the mention as a name.

        None before ``pel calibrate --names``. It is used only while the linker reranks as many
        candidates as when it was fitted.
        """
        return self.cfg["name_weight"] and FittedWeight(*self.cfg["name_weight"])

    @name_weight.setter
    def name_weight(self, weight: FittedWeight | None) -> None:
        self.cfg["name_weight"] = weight and list(weight)

    @property
    def joint(self) -> JointSettings | None:
        """How mentions of a corpus are linked together; None before ``pel calibrate --jointly``.

        It is used only while the linker reranks as many candidates as when it was fitted.
        """
        if not self.cfg["joint"]:
            return None
        slope, intercept, linking, discovery, reranked = self.cfg["joint"]
        kinds = Neighbourhood(*linking), Neighbourhood(*discovery)
        return JointSettings(slope, intercept, *kinds, reranked)

    @joint.setter
    def joint(self, settings: JointSettings | None) -> None:
        self.cfg["joint"] = settings and [
            list(value) if isinstance(value, Neighbourhood) else value for value in settings
        ]

    @property
    def exact_names(self) -> ExactNameBonus | SoleOwnersFirst | None:
        """What exact names change in the order of candidates; None: nothing.

        What was fitted goes before the default. A reranker decides by itself.
        """
        weight = self.fitting(self.name_weight)
        if weight:
            return ExactNameBonus(self.kb, weight.value)
        by_default = self.search_settings.sole_owners_first and not self.reranked
        return SoleOwnersFirst(self.kb) if by_default else None

    @property
    def reranking(self) -> Reranking | None:
        """How candidates are reranked; None if they are not."""
        if not self.reranked:
            return None
        weight = self.fitting(self.rerank_weight) or FittedWeight(1.0)
        return Reranking(self.reranker, self.kb, self.reranked, weight.value)

    def fitting(self, fitted: Fitted | None) -> Fitted | None:
        """Return a calibration or a weight if it still applies.

        Args:
            fitted: What was fitted; None if nothing was.

        Returns:
            The same. None if the linker now reranks another number of candidates.
        """
        return fitted if fitted and fitted.reranked == self.reranked else None

    def warn_of_labels(self, labels: Iterable[str]) -> None:
        """Warn, once for each label, if the probabilities were fitted on other labels alone.

        It says nothing as long as no mention has one of those other labels.
        """
        calibration = self.fitting(self.calibration)
        unknown = calibration.unknown(labels) if calibration else []
        new = [label for label in unknown if label not in self._said_of]
        if new:
            self._said_of |= set(new)
            logger.warning(
                "%s: the probabilities were fitted on mentions of %s. They may be wrong for "
                "mentions of %s; calibrate on a corpus that has such mentions: python -m spacy pel "
                "calibrate PIPELINE DEV",
                *(self.name, calibration.fitted_on, ", ".join(map(repr, new))),
            )

    def forget_fitted(self) -> None:
        """Drop what was fitted to scores, except the NIL threshold: some weights have changed."""
        self.calibration = self.name_weight = self.rerank_weight = self.joint = None

    def forget_threshold(self) -> None:
        """Take the NIL threshold of the config again: the retriever's weights have changed."""
        self.nil_threshold = self.cfg["configured_nil_threshold"]

    def cfg_file(self) -> SavedFile:
        """How ``cfg`` is saved."""
        return SavedFile(lambda _: json.dumps(self.cfg).encode(), self._set_cfg)

    def _set_cfg(self, saved: Saved) -> None:
        """Take what was saved, but not its threshold if the config now names another one."""
        configured = self.cfg["configured_nil_threshold"]
        self.cfg = {**NOT_CALIBRATED, **json.loads(content(saved))}
        if configured not in (None, self.cfg["configured_nil_threshold"]):
            self.cfg.update(nil_threshold=configured, configured_nil_threshold=configured)
