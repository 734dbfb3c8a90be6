"""Vectors of mentions from token states that another component of the pipeline has computed."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .window_encoder import pool_spans


class SpanEncoder(nn.Module):
    """Pools the token states of each mention, and maps them into the space of the entity vectors.

    Args:
        pooling: How a mention's tokens are pooled: the "mean" of their states, the first ("start")
            or the last ("end").
        normalize: Give vectors of length 1.

    Attributes:
        map: The linear layer, or None before ``load``, when both widths are not yet known.
    """

    def __init__(self, *, pooling: str, normalize: bool):
        super().__init__()
        self.pooling = pooling
        self.normalize = normalize
        self.map: nn.Linear | None = None

    def load(self, width: int, n_outputs: int) -> None:
        """Make the linear layer.

        It starts as the identity if both widths are equal: then a pretrained encoder that serves
        entities as well is of use at once. Otherwise it starts at random.

        Args:
            width: The width of the token states.
            n_outputs: The width of the entity vectors.
        """
        self.map = nn.Linear(width, n_outputs)
        if width == n_outputs:
            nn.init.eye_(self.map.weight)
        nn.init.zeros_(self.map.bias)

    @property
    def n_outputs(self) -> int:
        """The number of values that it gives for a mention."""
        return self.map.out_features

    def set_dropout(self, rate: float) -> None:
        """Do nothing: it has no dropout; that of the states' own model was applied to them."""

    def forward(self, states: Tensor, spans: Tensor) -> Tensor:
        """Encode m mentions.

        Args:
            states: float32 [t, w], the tokens' states.
            spans: int64 [m, 2], the first token of each mention and the one after its last.

        Returns:
            float32 [m, d].
        """
        vectors = self.map(pool_spans(states, spans, self.pooling))
        return nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors

    def description(self) -> dict[str, Any]:
        """Describe the layer: the widths of both sides; {} before ``load``."""
        if self.map is None:
            return {}
        return {"width": self.map.in_features, "n_outputs": self.map.out_features}

    def weights(self) -> dict[str, Tensor]:
        """Give the weights of the linear layer by name."""
        return self.state_dict()

    def restore(self, description: dict[str, Any], weights: dict[str, Tensor]) -> None:
        """Take what ``description`` and ``weights`` gave."""
        self.load(description["width"], description["n_outputs"])
        self.load_state_dict(weights, assign=True)
