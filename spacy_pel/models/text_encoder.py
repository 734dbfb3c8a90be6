"""A BERT that gives one vector for a text."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from ..errors import PelError
from .bert import BertEncoder, mean_over


class TextEncoder(BertEncoder):
    """A tower of the bi-encoder: it turns token ids into a vector (PEL, section 5.2).

    Args:
        pooling: The tokens whose states are averaged. "mean": all tokens, as in the paper. "focus":
            the tokens of the mention, or of the entity's title, which suits a pretrained encoder.
            "both": the sum of the two means, each at length 1; an encoder built from scratch learns
            to use the context much sooner with it. "cls": the first token, [CLS], as in KRISSBERT
            and ArboEL.
        normalize: Give vectors of length 1, so that their inner product is the cosine.
        mixed_precision: See ``BertEncoder``.
        n_numbers: How many numbers a vector has: the first ones of the pooled states. None: all.
            Training brings what counts into them (Kusupati et al. 2022, "Matryoshka").
    """

    def __init__(
        self,
        *,
        pooling: str,
        normalize: bool,
        mixed_precision: bool,
        n_numbers: int | None = None,
    ):
        super().__init__(mixed_precision=mixed_precision)
        self.pooling = pooling
        self.normalize = normalize
        self.n_numbers = n_numbers

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        """Take a Hugging Face BERT and its tokenizer.

        Raises:
            PelError: Its states have fewer numbers than a vector is to have.
        """
        width = transformer.config.hidden_size
        if self.n_numbers is not None and self.n_numbers > width:
            raise PelError(
                f"vectors of {self.n_numbers} numbers of an encoder that has {width}",
                f'set "n_numbers" to {width} or less',
            )
        super().load(transformer, tokenizer)

    @property
    def n_outputs(self) -> int:
        """Length of the vectors."""
        return self.width if self.n_numbers is None else self.n_numbers

    def forward(self, ids: Tensor, mask: Tensor, focus: Tensor, perturbation: Tensor) -> Tensor:
        """Encode a batch of n texts, padded to t tokens.

        Args:
            ids: int64 [n, t], token ids.
            mask: bool [n, t], false for padding.
            focus: bool [n, t], the tokens of the mention or the title.
            perturbation: float32 [n, t, d], or zeros [1, 1, 1] for none; see
                ``BertEncoder.hidden_states``.

        Returns:
            float32 [n, d].
        """
        wanted = {"focus": focus, "cls": _first_token(mask)}.get(self.pooling)
        hidden = self.hidden_states(ids, mask, perturbation, wanted=wanted)
        return self._scaled(self._pool(hidden, mask, focus))

    def _scaled(self, pooled: Tensor) -> Tensor:
        """The vectors as they leave the tower."""
        vectors = pooled[:, : self.n_numbers]
        return nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors

    def _pool(self, hidden: Tensor, mask: Tensor, focus: Tensor) -> Tensor:
        """One vector for each input: [n, t, d] to [n, d]."""
        if self.pooling == "both":
            means = (mean_over(hidden, tokens) for tokens in (mask, focus))
            return sum(nn.functional.normalize(mean, dim=-1) for mean in means)
        if self.pooling == "cls":
            return hidden[:, 0]
        return mean_over(hidden, mask if self.pooling == "mean" else focus)


def _first_token(mask: Tensor) -> Tensor:
    """The first token of each input, bool [n, t]."""
    first = torch.zeros_like(mask)
    first[:, 0] = True
    return first
