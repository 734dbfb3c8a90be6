"""A BERT that gives a vector for each mention of a document that it reads once."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from ..errors import PelError
from .text_encoder import TextEncoder


class WindowEncoder(TextEncoder):
    """A ``TextEncoder`` that also reads windows of documents, with the same weights.

    Args:
        mention_pooling: How a mention's vector is made of its tokens' states: their "mean", the
            first ("start") or the last ("end").
        pooling: See ``TextEncoder``; for texts alone.
        normalize: See ``TextEncoder``.
        mixed_precision: See ``BertEncoder``.
        n_numbers: See ``TextEncoder``.
    """

    def __init__(
        self,
        *,
        mention_pooling: str,
        pooling: str,
        normalize: bool,
        mixed_precision: bool,
        n_numbers: int | None = None,
    ):
        super().__init__(
            pooling=pooling,
            normalize=normalize,
            mixed_precision=mixed_precision,
            n_numbers=n_numbers,
        )
        self.mention_pooling = mention_pooling

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        """Take a Hugging Face BERT and its tokenizer.

        Raises:
            PelError: The BERT has a single segment embedding.
        """
        if transformer.config.type_vocab_size < 2:
            raise PelError(
                "the encoder has one segment embedding, and mentions are marked by the second",
                "choose one with two, or spacy-pel.BiEncoder.v1",
            )
        super().load(transformer, tokenizer)

    def forward(
        self,
        ids: Tensor,
        mask: Tensor,
        focus: Tensor,
        perturbation: Tensor,
        spans: Tensor | None = None,
    ) -> Tensor:
        """Encode the m mentions of a batch of n windows; without spans, encode n texts.

        Args:
            ids: int64 [n, t], token ids.
            mask: bool [n, t], false for padding.
            focus: bool [n, t], the tokens of mentions, which are BERT's second segment. For texts
                see ``TextEncoder.forward``.
            perturbation: float32 [n, t, d], or zeros [1, 1, 1] for none; see
                ``BertEncoder.hidden_states``.
            spans: int64 [m, 2], the first token of each mention and the one after its last, counted
                through the padded windows one after the other; None for texts.

        Returns:
            float32 [m, d]; for texts float32 [n, d].
        """
        if spans is None:
            return super().forward(ids, mask, focus, perturbation)
        wanted = torch.zeros_like(mask)
        wanted.view(-1)[pooled_tokens(spans, self.mention_pooling)[0]] = True
        hidden = self.hidden_states(ids, mask, perturbation, focus.long(), wanted)
        return self._scaled(pool_spans(hidden.flatten(0, 1), spans, self.mention_pooling))


def pool_spans(hidden: Tensor, spans: Tensor, pooling: str) -> Tensor:
    """Make a vector for each span of tokens.

    Args:
        hidden: Float [t, d], the tokens' states.
        spans: int64 [m, 2], the first token of each span and the one after its last. A span has at
            least one token.
        pooling: "mean", "start" or "end"; see ``WindowEncoder``.

    Returns:
        Float [m, d].
    """
    tokens, firsts = pooled_tokens(spans, pooling)
    return nn.functional.embedding_bag(tokens, hidden, firsts, mode="mean")


def pooled_tokens(spans: Tensor, pooling: str) -> tuple[Tensor, Tensor]:
    """List the tokens that are pooled for spans.

    Args:
        spans: int64 [m, 2]; see ``pool_spans``.
        pooling: See ``pool_spans``.

    Returns:
        The tokens, int64 [p], those of one span after the other; and for each span the place of its
        first token among them, int64 [m].
    """
    starts, ends = spans.unbind(1)
    if pooling != "mean":
        tokens = starts if pooling == "start" else ends - 1
        return tokens, torch.arange(len(spans), device=spans.device)
    lengths = ends - starts
    firsts = lengths.cumsum(0) - lengths
    tokens = torch.arange(int(lengths.sum()), device=spans.device)
    return tokens + (starts - firsts).repeat_interleave(lengths), firsts
