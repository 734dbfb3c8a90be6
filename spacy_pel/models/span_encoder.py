"""Vectors of mentions from the states that something else has made of their tokens."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .window_encoder import pool_spans


class SpanEncoder(nn.Module):
    """Pools the states of a mention's tokens, and maps what it has to the vectors of entities.

    pooling: "mean" of the tokens' states, the first one ("start") or the last one ("end").
    normalize: give vectors of length 1.

    The map's size is set later (``load``), when the widths of both sides are known.
    """

    def __init__(self, *, pooling: str, normalize: bool):
        super().__init__()
        self.pooling = pooling
        self.normalize = normalize
        self.map: nn.Linear | None = None

    def load(self, width: int, n_outputs: int) -> None:
        """Begin: as one is where both are as wide, so that a pretrained encoder that is the
        entities' as well is at once of use; else at random."""
        self.map = nn.Linear(width, n_outputs)
        if width == n_outputs:
            nn.init.eye_(self.map.weight)
        nn.init.zeros_(self.map.bias)

    @property
    def n_outputs(self) -> int:
        """How many numbers it gives for a mention."""
        return self.map.out_features

    def set_dropout(self, rate: float) -> None:
        """It has none; the states have been through that of their own model."""

    def forward(self, states: Tensor, spans: Tensor) -> Tensor:
        """Vectors, float32 [m, d]. states: float32 [t, w]. spans: int64 [m, 2], tokens."""
        vectors = self.map(pool_spans(states, spans, self.pooling))
        return nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors

    def description(self) -> dict[str, Any]:
        """The widths of both sides; {} without weights."""
        if self.map is None:
            return {}
        return {"width": self.map.in_features, "n_outputs": self.map.out_features}

    def weights(self) -> dict[str, Tensor]:
        """Those of the map."""
        return self.state_dict()

    def restore(self, description: dict[str, Any], weights: dict[str, Tensor]) -> None:
        """Take what the two gave."""
        self.load(description["width"], description["n_outputs"])
        self.load_state_dict(weights, assign=True)
