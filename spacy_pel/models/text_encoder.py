"""A BERT that gives one vector for a text."""

from __future__ import annotations

from torch import Tensor, nn

from .bert import BertEncoder, mean_over


class TextEncoder(BertEncoder):
    """Tower of the bi-encoder: token ids -> vector (PEL, section 5.2).

    pooling: "mean" over all tokens (the paper); "focus": over the tokens of the mention or of the
        title, each read in its context, which suits a pretrained encoder; or "both", the sum of
        the two at equal length, with which an encoder built from scratch learns to use the context
        much sooner.
    normalize: give vectors of length 1, so that their dot product is the cosine.
    mixed_precision: see ``BertEncoder``.
    """

    def __init__(self, *, pooling: str, normalize: bool, mixed_precision: bool):
        super().__init__(mixed_precision=mixed_precision)
        self.pooling = pooling
        self.normalize = normalize

    @property
    def n_outputs(self) -> int:
        """Length of the vectors."""
        return self.width

    def forward(self, ids: Tensor, mask: Tensor, focus: Tensor, perturbation: Tensor) -> Tensor:
        """Vectors, float32 [n, d].

        ids: int64 [n, t]; mask, focus: bool [n, t] (see ``inputs.TokenBatch``).
        perturbation: float32 [n, t, d], or [1, 1, 1] for none (see ``BertEncoder.states``).
        """
        wanted = focus if self.pooling == "focus" else None
        hidden = self.states(ids, mask, perturbation, wanted=wanted)
        return self._scaled(self._pool(hidden, mask, focus))

    def _scaled(self, pooled: Tensor) -> Tensor:
        """The vectors as they leave the tower."""
        return nn.functional.normalize(pooled, dim=-1) if self.normalize else pooled

    def _pool(self, hidden: Tensor, mask: Tensor, focus: Tensor) -> Tensor:
        """One vector for each input: [n, t, d] -> [n, d]."""
        if self.pooling == "both":
            means = (mean_over(hidden, tokens) for tokens in (mask, focus))
            return sum(nn.functional.normalize(mean, dim=-1) for mean in means)
        return mean_over(hidden, mask if self.pooling == "mean" else focus)
