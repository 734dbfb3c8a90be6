"""A BERT computed by ONNX Runtime on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import PelError
from .onnx_graph import bert_graph


class OnnxStates:
    """Computes the last hidden states of a BERT with ONNX Runtime.

    It keeps the weights as they are when it is made. It computes in the thread that calls it, and
    several threads may call it at a time. It cannot be copied or pickled; a forked process needs one
    of its own.

    Args:
        transformer: A Hugging Face BERT on the CPU.
        int8: Compute the products with weights in 8 bits. The steps of the other factor are chosen
            for each input. Attention itself stays in float32.

    Raises:
        PelError: onnxruntime or onnx is not installed, the BERT is not on the CPU, or its
            activation is not "gelu".
    """

    def __init__(self, transformer: nn.Module, *, int8: bool):
        try:
            import onnx  # noqa: F401
            import onnxruntime
        except ImportError as error:
            raise PelError(
                "the runtime needs ONNX Runtime",
                'run: pip install "spacy-pel[onnx]", or set runtime = "torch"',
            ) from error
        self.transformer = transformer
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        # A higher level fuses each sum with the LayerNorm after it, which takes six times as long.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        self._session = onnxruntime.InferenceSession(
            bert_graph(transformer, int8=int8).SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
        )

    def __call__(
        self,
        ids: Tensor,
        mask: Tensor,
        segments: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Compute the last hidden states of n inputs, padded to t tokens.

        Each input is computed by itself. So no time is spent on padding, and its states are the
        same, to the last bit, whatever it is batched with, also in 8 bits.

        Args:
            ids: int64 [n, t], token ids.
            mask: bool [n, t], true for the first tokens of each input, false for padding.
            segments: int64 [n, t], token types; None for zeros.
            wanted: bool [n, t], the tokens whose states are needed; None for all.

        Returns:
            float32 [n, t, d]; 0 for padding and for tokens that are not wanted.
        """
        segments = torch.zeros_like(ids) if segments is None else segments
        wanted = mask if wanted is None else wanted
        hidden = torch.zeros(*ids.shape, self.transformer.config.hidden_size)
        for row, length in enumerate(mask.sum(1).tolist()):
            columns = wanted[row].nonzero()[:, 0]
            inputs = {"ids": ids[row, :length], "segments": segments[row, :length]}
            inputs = {k: v.numpy() for k, v in {**inputs, "wanted": columns}.items()}
            hidden[row, columns] = torch.from_numpy(self._session.run(["states"], inputs)[0])
        return hidden
