"""A BERT that gives one score for a mention and an entity read together."""

from __future__ import annotations

from tokenizers import Tokenizer
from torch import Tensor, nn

from .bert import BertEncoder, mean_over


class PairScorer(BertEncoder):
    """The cross-encoder: token ids of a pair -> score (PEL, appendix B).

    The mean over all tokens of the pair, and a linear layer without a bias, which would be the same
    for all candidates of a mention. mixed_precision: see ``BertEncoder``.
    """

    n_outputs = 1

    def __init__(self, *, mixed_precision: bool):
        super().__init__(mixed_precision=mixed_precision)
        self.score: nn.Linear | None = None

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        """Take a Hugging Face BERT and its tokenizer; the linear layer starts at random."""
        super().load(transformer, tokenizer)
        self.score = nn.Linear(self.width, 1, bias=False)

    def forward(self, ids: Tensor, mask: Tensor, focus: Tensor, perturbation: Tensor) -> Tensor:
        """Scores, float32 [n, 1].

        ids: int64 [n, t]; mask, focus: bool [n, t], focus being the entity's side of the pair. It
            is BERT's second segment, if the transformer has one.
        perturbation: float32 [n, t, d], or [1, 1, 1] for none (see ``BertEncoder.states``).
        """
        segments = focus.long() if self.transformer.config.type_vocab_size > 1 else None
        return self.score(mean_over(self.states(ids, mask, perturbation, segments), mask))
