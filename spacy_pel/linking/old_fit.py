"""What was fitted to the linker of en_pel_mesh_sm 0.1. It goes when that package goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from .reranking import Found, Ordered, in_order


class OldFit(NamedTuple):
    """Platt scaling of the best score and its margin, and a bonus for exact names."""

    kb: KnowledgeBase
    slope: float
    intercept: float
    margin_slope: float
    bonus: float

    @classmethod
    def of(cls, kb: KnowledgeBase, saved: Mapping[str, Any]) -> OldFit | None:
        """The fit in a linker's saved settings; None if there is none."""
        if not (saved.get("calibration") and saved.get("name_weight")):
            return None
        slope, intercept, _, margin_slope, *_ = saved["calibration"]
        return cls(kb, slope, intercept, margin_slope, saved["name_weight"][0])

    def ordered(self, found: Found) -> Ordered:
        """The candidates by score and bonus."""
        (numbers, scores), surfaces = found.candidates, [m.surface for m in found.mentions]
        owners = {surface: self.kb.numbers_named(surface) for surface in set(surfaces)}
        named = [np.isin(row, owners[surface]) for surface, row in zip(surfaces, numbers)]
        scores = scores + self.bonus * np.array(named).reshape(numbers.shape)
        order = np.argsort(-scores, kind="stable")
        best, second = in_order(order, scores)[0][:, :2].T.astype(np.float64)
        margin = np.where(np.isfinite(second), best - second, 0)
        chances = np.full(scores.shape, np.nan)
        logits = self.slope * best + self.intercept + self.margin_slope * margin
        chances[:, 0] = (1 + np.tanh(logits / 2)) / 2
        return Ordered(order, chances)
