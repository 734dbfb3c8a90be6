"""Compute a BERT with ONNX Runtime on the CPU, in float32 or with 8-bit matrix products.

The graph is built operator by operator instead of exported: this needs no tracing, takes a second, and uses
the operators that ONNX Runtime computes fast. Import this module only where it is needed: ONNX Runtime is
optional.
"""

from typing import Any

import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from ..errors import PelError
from .bert import Bert, BertLayer

# The largest 8-bit weight. Processors without VNNI instructions add pairs of products in 16 bits, which
# larger weights would overflow. With this limit all processors compute the same.
_MAX_WEIGHT = 63
# The versions of the format and of the operators, and the domain of ONNX Runtime's own operators.
_IR_VERSION, _OPSET, _MICROSOFT = 10, 20, "com.microsoft"


class OnnxStates:
    """Computes the last hidden states of a BERT, or of one of its layers, with ONNX Runtime.

    It keeps a copy of the weights. Several threads may call it at the same time. It cannot be copied or
    pickled, and a forked process needs its own.

    Args:
        transformer: A BERT on the CPU, or a layer of a BERT.
        int8: Compute the products with weights in 8 bits. The scale of the other factor is chosen for
            each input. Attention stays in float32.

    Raises:
        PelError: The BERT is not on the CPU, or its activation is not "gelu".
    """

    def __init__(self, transformer: Bert | BertLayer, *, int8: bool):
        device = next(transformer.parameters()).device.type
        activation = transformer.config.hidden_act
        if (device, activation) != ("cpu", "gelu"):
            raise PelError(
                'ONNX Runtime needs a CPU and the activation "gelu", '
                f'not "{device}" and "{activation}"',
                'set runtime = "torch"',
            )
        self.transformer = transformer
        self.vectors: dict[str, np.ndarray] = {}  # of texts, remembered by the retriever
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.enable_cpu_mem_arena = False  # it keeps memory for the longest input
        # A higher level fuses each sum with the LayerNorm after it, which is six times slower.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        graph = _Graph(transformer, int8).serialized()
        self._session = onnxruntime.InferenceSession(graph, options, ["CPUExecutionProvider"])
        self._session._model_bytes = None  # kept for other providers: 19 MB

    def __call__(
        self,
        ids: Tensor,
        mask: Tensor,
        segments: Tensor | None = None,
        wanted: Tensor | None = None,
        added: Tensor | None = None,
    ) -> Tensor:
        """Return the last hidden states, float32 [n, t, d]; 0 for padding and tokens not wanted.

        Each input is computed separately. This wastes no time on padding, and the states of an input are
        the same to the last bit in any batch, also in 8 bits.

        Args:
            ids, mask, segments, wanted: Those of ``BertEncoder.hidden_states``.
            added: Its perturbation.
        """
        assert isinstance(self.transformer, Bert)  # a layer has no embeddings
        embeddings = self.transformer.embeddings
        summed = embeddings.summed(ids, 0.0 if added is None else added, segments)
        # As arrays: slicing short tensors takes longer than the session.
        embedded, is_wanted = summed.detach().numpy(), (mask if wanted is None else wanted).numpy()
        hidden = np.zeros(embedded.shape, dtype=np.float32)
        for row, length in enumerate(mask.sum(1).tolist()):
            columns = np.flatnonzero(is_wanted[row])
            hidden[row, columns] = self.of_one(embedded[row, :length], columns)
        return torch.from_numpy(hidden)

    def of_one(self, embedded: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return the states of the wanted tokens of one input, float32 [w, d].

        Args:
            embedded: The summed embeddings of a BERT, or what a layer reads: float32 [t, d].
            wanted: The positions of tokens, int64 [w].
        """
        states: np.ndarray = self._session.run(
            ["states"], {"embedded": embedded[None], "wanted": wanted}
        )[0][0]
        return states


class _Graph:
    """The operators and constants of a graph. Each method adds some and returns the name of its output.

    Inputs are ``embedded``, float32 [1, t, d], the summed embeddings, which torch looks up, and ``wanted``,
    int64 [w], the positions of the tokens for which the last layer is computed. The output is ``states``,
    float32 [1, w, d].
    """

    def __init__(self, transformer: Bert | BertLayer, int8: bool):
        self.config = transformer.config
        self.int8 = int8
        self.weights = transformer.state_dict()
        self.layers = [""]
        if isinstance(transformer, Bert):
            self.layers = [f"encoder.layer.{i}." for i in range(self.config.num_hidden_layers)]
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def serialized(self) -> bytes:
        """Return the whole graph."""
        *inner, last = self.layers
        states = "embedded"
        if "embeddings.LayerNorm.weight" in self.weights:
            states = self._normalized("embeddings.LayerNorm", states)
        for layer in inner:
            states = self._layer(layer, states, None)
        states = self._layer(last, states, "wanted")
        self.nodes.append(helper.make_node("Identity", [states], ["states"]))
        width = self.config.hidden_size
        embedded = helper.make_tensor_value_info("embedded", TensorProto.FLOAT, [1, "t", width])
        asked = helper.make_tensor_value_info("wanted", TensorProto.INT64, ["w"])
        output = helper.make_tensor_value_info("states", TensorProto.FLOAT, [1, "w", width])
        graph = helper.make_graph(self.nodes, "bert", [embedded, asked], [output], self.constants)
        versions = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=_IR_VERSION)
        serialized: bytes = model.SerializeToString()
        return serialized

    def _layer(self, layer: str, states: str, wanted: str | None) -> str:
        """Add a layer of BERT: [1, t, d] to [1, t, d], or to [1, w, d] for the wanted tokens."""
        attention, kinds = f"{layer}attention.self", ("query", "key", "value")
        if wanted is not None:
            asking = self._node("Gather", states, wanted, axis=1)
            heads = self._projections(attention, asking, "query")
            heads += self._projections(attention, states, "key", "value")
            attended, states = self._attention(*heads), asking
        elif self.int8:
            attended = self._int8_attention(states, *(f"{attention}.{kind}" for kind in kinds))
        else:
            attended = self._attention(*self._projections(attention, states, *kinds))
        attended = self._linear(attended, f"{layer}attention.output.dense")
        states = self._normalized(
            f"{layer}attention.output.LayerNorm", self._node("Add", attended, states)
        )
        inner = self._node("Gelu", self._linear(states, f"{layer}intermediate.dense"))
        outer = self._linear(inner, f"{layer}output.dense")
        return self._normalized(f"{layer}output.LayerNorm", self._node("Add", outer, states))

    def _projections(self, attention: str, states: str, *kinds: str) -> list[str]:
        """Add one matrix product for queries, keys or values, each [1, t, d]."""
        linear = self._linear(states, *(f"{attention}.{kind}" for kind in kinds))
        names = [f"{linear}.{kind}" for kind in kinds]
        self._node("Split", linear, outputs=names, axis=-1, num_outputs=len(kinds))
        return names

    def _attention(self, *heads: str) -> str:
        """Add the attention of queries to keys and values, [1, q, e]."""
        n_heads = self.config.num_attention_heads
        return self._node("MultiHeadAttention", *heads, domain=_MICROSOFT, num_heads=n_heads)

    def _int8_attention(self, states: str, *layers: str) -> str:
        """Add projections and attention as one operator, which copies less: [1, t, d] to [1, t, e]."""
        inputs = [f"{kind}.{len(self.nodes)}" for kind in ("rounded", "scale", "zero")]
        self._node("DynamicQuantizeLinear", states, outputs=inputs)
        rounded, scale, zero = inputs
        weight, scales, zeros, bias = self._rounded(*layers)
        given = (rounded, weight, bias, scale, scales, "", zero, zeros)
        n_heads = self.config.num_attention_heads
        return self._node("QAttention", *given, domain=_MICROSOFT, num_heads=n_heads)

    def _linear(self, states: str, *layers: str) -> str:
        """Add linear layers of the same input and concatenate their outputs: [1, t, d] to [1, t, e]."""
        if self.int8:
            given = (states, *self._rounded(*layers))
            return self._node("DynamicQuantizeMatMul", *given, domain=_MICROSOFT)
        weight, bias = map(self._constant, self._joined(*layers))
        return self._node("Add", self._node("MatMul", states, weight), bias)

    def _rounded(self, *layers: str) -> tuple[str, ...]:
        """Add the weights [d, e] of linear layers in 8 bits, their scales and zero points [e], and biases."""
        weight, bias = self._joined(*layers)
        scales = np.abs(weight).max(axis=0) / _MAX_WEIGHT
        scales[scales == 0] = 1
        rounded = np.round(weight / scales).astype(np.int8)
        zeros = np.zeros(len(scales), dtype=np.int8)
        return tuple(map(self._constant, (rounded, scales, zeros, bias)))

    def _joined(self, *layers: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of linear layers of the same input, [d, e], and their biases, [e]."""
        weights, biases = (
            np.concatenate([self._weight(f"{layer}.{kind}") for layer in layers])
            for kind in ("weight", "bias")
        )
        return weights.T, biases

    def _normalized(self, layer: str, states: str) -> str:
        weight, bias = (self._constant(self._weight(f"{layer}.{k}")) for k in ("weight", "bias"))
        epsilon = self.config.layer_norm_eps
        return self._node("LayerNormalization", states, weight, bias, epsilon=epsilon)

    def _weight(self, name: str) -> np.ndarray:
        weight: Tensor = self.weights[name]
        return weight.float().numpy()

    def _constant(self, array: np.ndarray) -> str:
        name = f"constant.{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _node(
        self, operator: str, *inputs: str, outputs: list[str] | None = None, **attributes: Any
    ) -> str:
        """Add an operator and return the name of its first output."""
        outputs = outputs or [f"{operator}.{len(self.nodes)}"]
        self.nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
        return outputs[0]
