"""A BERT computed by ONNX Runtime, in float32 or with 8-bit matrix products.

The graph is written here, operator by operator: of all that can be exported only BERT is needed,
and so written it needs no tracing, opens in a second, and has the operators that are the fast ones.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import PelError
from .onnx_graph import bert_graph


class OnnxStates:
    """The last hidden states of a BERT, by ONNX Runtime on the CPU.

    int8: whether matrices of weights are in 8 bits, and what they are multiplied with as well, in
        steps that are chosen for each input. Attention itself stays in float32.

    It has the weights as they are now. It computes in the thread that calls it, any number of which
    may. It cannot be copied or pickled, and a forked process needs one of its own.
    Raises PelError if onnxruntime or onnx is not installed, the BERT is not on the CPU, or it is of
    a kind that the graph does not know.
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
        # More would fuse each sum with the LayerNorm behind it, which takes six times the time.
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
        """float32 [n, t, d]; zero where no state is wanted, or there is no token.

        ids, segments: int64 [n, t], segments None for zeros. mask: bool [n, t], true at the first
            tokens of each row. wanted: bool [n, t], some of them, or None for all.
        Each row is computed by itself: nothing is spent on padding, and a row's states are the
        same, to the last bit, whatever it is batched with, also those in 8 bits.
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
