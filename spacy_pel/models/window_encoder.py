"""A BERT that gives a vector for each mention of a document that it reads once."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from ..errors import PelError
from .text_encoder import TextEncoder


class WindowEncoder(TextEncoder):
    """A ``TextEncoder`` that reads windows of documents as well, with the same weights.

    mention_pooling: what a mention's vector is of its tokens' states: "mean", the first one's
        ("start") or the last one's ("end"). The other arguments are those of ``TextEncoder``.
    """

    def __init__(
        self, *, mention_pooling: str, pooling: str, normalize: bool, mixed_precision: bool
    ):
        super().__init__(pooling=pooling, normalize=normalize, mixed_precision=mixed_precision)
        self.mention_pooling = mention_pooling

    def load(self, transformer: nn.Module, tokenizer: Tokenizer) -> None:
        """Take a Hugging Face BERT and its tokenizer. Raises PelError if it has one segment."""
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
        """Vectors, float32 [m, d], of the mentions of windows; without spans, those of texts.

        ids: int64 [n, t]; mask, focus: bool [n, t]; spans: int64 [m, 2] (see
            ``windows.WindowBatch``). What is in focus is BERT's second segment.
        perturbation: float32 [n, t, d], or [1, 1, 1] for none (see ``BertEncoder.states``).
        """
        if spans is None:
            return super().forward(ids, mask, focus, perturbation)
        wanted = torch.zeros_like(mask)
        wanted.view(-1)[pooled_tokens(spans, self.mention_pooling)[0]] = True
        hidden = self.states(ids, mask, perturbation, focus.long(), wanted)
        return self._scaled(pool_spans(hidden.flatten(0, 1), spans, self.mention_pooling))


def pool_spans(hidden: Tensor, spans: Tensor, pooling: str) -> Tensor:
    """A vector for each span of tokens: hidden [t, d], spans int64 [m, 2] -> [m, d].

    pooling: see ``WindowEncoder``. A span has a token at least.
    """
    tokens, firsts = pooled_tokens(spans, pooling)
    return nn.functional.embedding_bag(tokens, hidden, firsts, mode="mean")


def pooled_tokens(spans: Tensor, pooling: str) -> tuple[Tensor, Tensor]:
    """What is pooled for spans, int64 [m, 2]: tokens, int64 [p], those of one span after the
    other; and which of these is the first of each span, int64 [m]."""
    starts, ends = spans.unbind(1)
    if pooling != "mean":
        tokens = starts if pooling == "start" else ends - 1
        return tokens, torch.arange(len(spans), device=spans.device)
    lengths = ends - starts
    firsts = lengths.cumsum(0) - lengths
    tokens = torch.arange(int(lengths.sum()), device=spans.device)
    return tokens + (starts - firsts).repeat_interleave(lengths), firsts
