"""A BERT that gives one score for a mention and an entity read together."""

from __future__ import annotations

from tokenizers import Tokenizer
from torch import Tensor, nn

from .bert import BertEncoder, mean_over


class PairScorer(BertEncoder):
    """The cross-encoder: it turns the token ids of a pair into a score (PEL, appendix B).

    The score is a linear layer of the mean over all tokens of the pair. The layer has no bias, which
    would be the same for all candidates of a mention.

    Args:
        mixed_precision: See ``BertEncoder``.

    Attributes:
        score: The linear layer, or None before ``load``.
    """

    n_outputs = 1

    def __init__(self, *, mixed_precision: bool):
        super().__init__(mixed_precision=mixed_precision)
        self.score: nn.Linear | None = None

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        """Take a Hugging Face BERT and its tokenizer; the linear layer gets random weights."""
        super().load(transformer, tokenizer)
        self.score = nn.Linear(self.width, 1, bias=False)

    def forward(self, ids: Tensor, mask: Tensor, focus: Tensor, perturbation: Tensor) -> Tensor:
        """Score a batch of n pairs, padded to t tokens.

        Args:
            ids: int64 [n, t], token ids.
            mask: bool [n, t], false for padding.
            focus: bool [n, t], the entity's side of the pair. It is BERT's second segment, if the
                transformer has one.
            perturbation: float32 [n, t, d], or zeros [1, 1, 1] for none; see
                ``BertEncoder.hidden_states``.

        Returns:
            float32 [n, 1].
        """
        segments = focus.long() if self.transformer.config.type_vocab_size > 1 else None
        return self.score(mean_over(self.hidden_states(ids, mask, perturbation, segments), mask))
