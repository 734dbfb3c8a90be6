"""What ``pel calibrate`` fits to a linker's scores, as the linker keeps it."""

from __future__ import annotations

from typing import Any, Dict, Optional, TypeVar

from ..linking import Calibration, NameWeight
from .kb_reference import KBPipe

Fitted = TypeVar("Fitted", Calibration, NameWeight)

# Before anything was fitted, and of a linker that was saved before there was any of this.
NOT_CALIBRATED = {
    "nil_threshold": None,
    "configured_nil_threshold": None,
    "calibration": None,
    "name_weight": None,
}


class CalibratedPipe(KBPipe):
    """A linker whose scores may have been given a meaning on dev.

    What was fitted is plain data in ``cfg``, to be saved with the weights.
    """

    cfg: Dict[str, Any]

    @property
    def reranked(self) -> int:
        """How many candidates of a mention are ranked again; 0 without a reranker."""
        raise NotImplementedError

    @property
    def nil_threshold(self) -> Optional[float]:
        """A mention whose best score by the retriever is below it is NIL; None: no mention is."""
        return self.cfg["nil_threshold"]

    @nil_threshold.setter
    def nil_threshold(self, threshold: Optional[float]) -> None:
        self.cfg["nil_threshold"] = threshold

    @property
    def calibration(self) -> Optional[Calibration]:
        """What makes probabilities of scores; None before ``pel calibrate``.

        It says nothing while another number of candidates is reranked than it was fitted to.
        """
        return self.cfg["calibration"] and Calibration(*self.cfg["calibration"])

    @calibration.setter
    def calibration(self, calibration: Optional[Calibration]) -> None:
        self.cfg["calibration"] = calibration and list(calibration)

    @property
    def name_weight(self) -> Optional[NameWeight]:
        """What an exact name is worth; None before ``pel calibrate --names``.

        As ``calibration``, it says nothing while another number of candidates is reranked.
        """
        return self.cfg["name_weight"] and NameWeight(*self.cfg["name_weight"])

    @name_weight.setter
    def name_weight(self, weight: Optional[NameWeight]) -> None:
        self.cfg["name_weight"] = weight and list(weight)

    def fitting(self, fitted: Optional[Fitted]) -> Optional[Fitted]:
        """What was fitted, if it was to scores like those of now."""
        return fitted if fitted and fitted.reranked == self.reranked else None
