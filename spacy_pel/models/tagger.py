"""A BERT that gives each word of a text scores of tags and a state, and is told what is known of the word."""

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from .encoders import BertEncoder


class Tagger(BertEncoder):
    """Scores the tags of words, and gives the states that the scores are made of.

    What is known of a word (the names of a knowledge base that lie there, its shape) is embedded and
    added to the input embeddings of its pieces. The embeddings of the word pieces are not trained.

    Args:
        n_tags: The number of tags.
        n_features: The number of features of a word.
        mixed_precision: See ``BertEncoder``.
    """

    def __init__(self, *, n_tags: int, n_features: int, mixed_precision: bool):
        super().__init__(mixed_precision=mixed_precision)
        self.n_tags = n_tags
        self.n_features = n_features
        self.features: nn.Linear | None = None
        self.tags: nn.Linear | None = None

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        """Take a Hugging Face BERT and its tokenizer; the other layers begin at random."""
        super().load(transformer, tokenizer)
        self.transformer.get_input_embeddings().requires_grad_(False)
        self.features = nn.Linear(self.n_features, self.width, bias=False)
        nn.init.normal_(self.features.weight, std=0.02)
        self.tags = nn.Linear(self.width, self.n_tags)

    @property
    def n_outputs(self) -> int:
        return self.n_tags + self.width

    def forward(
        self, ids: Tensor, mask: Tensor, firsts: Tensor, features: Tensor, perturbation: Tensor
    ) -> Tensor:
        """The words of n windows, one after the other: float32 [w, n_tags + width].

        Their scores come first, their states behind them. The other arguments are as of ``BertEncoder.hidden_states``.

        Args:
            firsts: bool [n, t], true at the first piece of each word.
            features: float32 [n, t, f], the features of the word of each piece.
        """
        added = self.features(features) + perturbation
        states = self.hidden_states(ids, mask, added, wanted=firsts)[firsts]
        return torch.cat([self.tags(states), states], dim=1)


def summed_loss(scores: np.ndarray, allowed: np.ndarray) -> tuple[float, np.ndarray]:
    """The loss of tags where several may be right: minus the log of their summed probability.

    A corpus that does not annotate a label says nothing of whether a word outside its mentions has
    that label: there the tags of the label are allowed beside "outside".

    Args:
        scores: float32 [w, t], the scores of the tags of each word.
        allowed: bool [w, t], the tags that may be right. A word with all of them teaches nothing.

    Returns:
        The mean loss of a word, and its gradient by the scores, float32 [w, t].
    """
    given = torch.from_numpy(scores).requires_grad_()
    right = given.masked_fill(~torch.from_numpy(allowed), -torch.inf)
    loss = (given.logsumexp(1) - right.logsumexp(1)).mean()
    loss.backward()
    return float(loss.detach()), given.grad.numpy()
