"""The ONNX graph of a BERT, in float32 or with 8-bit matrix products.

The graph is written operator by operator and not exported: it needs no tracing, is made in a second,
and has the operators that ONNX Runtime computes fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from ..errors import PelError

if TYPE_CHECKING:
    from onnx import ModelProto

# The largest 8-bit weight: seven bits with the sign. Processors without VNNI instructions add pairs of
# products in 16 bits, which larger weights would overflow. So all processors compute the same.
_LARGEST = 63
# The versions of the format and of ONNX's operators, and the domain of ONNX Runtime's own operators.
_IR_VERSION, _OPSET, _MICROSOFT = 10, 20, "com.microsoft"


def bert_graph(transformer: nn.Module, *, int8: bool) -> ModelProto:
    """Write the graph of a BERT.

    Its inputs are ``ids`` and ``segments``, int64 [t], and ``wanted``, int64 [w]: the places of the
    tokens for which the last layer is computed. Its output is ``states``, float32 [w, d].

    Args:
        transformer: A ``Bert``.
        int8: Compute the products with weights in 8 bits.

    Raises:
        PelError: The BERT is not on the CPU, or its activation is not "gelu".
    """
    config = transformer.config
    device = transformer.device.type
    if device != "cpu":
        raise PelError(
            f'ONNX Runtime is used on the CPU, not on "{device}"', 'set runtime = "torch"'
        )
    if config.hidden_act != "gelu":
        raise PelError(
            'ONNX Runtime is used for encoders with the activation "gelu", not '
            f'"{config.hidden_act}"',
            'set runtime = "torch"',
        )
    graph = _Graph(transformer, int8)
    states = graph.embedded("ids", "segments")
    last = config.num_hidden_layers - 1
    for number in range(last):
        states = graph.layer(f"encoder.layer.{number}", states)
    return graph.model(graph.layer(f"encoder.layer.{last}", states, "wanted"))


class _Graph:
    """The operators and constants of a graph.

    A method adds operators, and gives the name of the value that they compute.
    """

    def __init__(self, transformer: nn.Module, int8: bool):
        self.config = transformer.config
        self.int8 = int8
        self.weights = {k: v.detach().numpy() for k, v in transformer.state_dict().items()}
        self.nodes: list = []
        self.constants: list = []

    def embedded(self, ids: str, segments: str) -> str:
        """Add the input embeddings, [t, d]."""
        first, axis = self._constant(np.array([0])), self._constant(np.array([0]))
        length = self._node("Shape", ids)
        words, positions, kinds = (
            self._constant(self.weights[f"embeddings.{kind}_embeddings.weight"])
            for kind in ("word", "position", "token_type")
        )
        total = self._node("Gather", words, ids)
        total = self._node("Add", total, self._node("Gather", kinds, segments))
        total = self._node("Add", total, self._node("Slice", positions, first, length, axis))
        return self._normalized("embeddings.LayerNorm", total)

    def layer(self, layer: str, states: str, wanted: str | None = None) -> str:
        """Add a layer of BERT: [t, d] to [t, d], or to [w, d] for the wanted tokens."""
        if wanted is None:
            attended = self._attended(f"{layer}.attention.self", states)
        else:
            asking = self._node("Gather", states, wanted)
            attended = self._attended_from(f"{layer}.attention.self", asking, states)
            states = asking
        attended = self._linear(attended, f"{layer}.attention.output.dense")
        states = self._normalized(
            f"{layer}.attention.output.LayerNorm", self._node("Add", attended, states)
        )
        inner = self._node("Gelu", self._linear(states, f"{layer}.intermediate.dense"))
        outer = self._linear(inner, f"{layer}.output.dense")
        return self._normalized(f"{layer}.output.LayerNorm", self._node("Add", outer, states))

    def _attended(self, attention: str, states: str) -> str:
        """Self-attention of all tokens: [t, d] to [t, d]."""
        return self._attention(*self._projections(attention, states, "query", "key", "value"))

    def _attended_from(self, attention: str, asking: str, states: str) -> str:
        """Attention of the tokens that ask, [w, d], over all tokens, [t, d]: [w, d]."""
        queries = self._projections(attention, asking, "query")
        return self._attention(*queries, *self._projections(attention, states, "key", "value"))

    def _projections(self, attention: str, states: str, *kinds: str) -> list[str]:
        """Queries, keys or values, each [1, t, d], by one product of matrices."""
        linear = self._linear(states, *(f"{attention}.{kind}" for kind in kinds))
        joined = self._node("Unsqueeze", linear, self._constant(np.array([0])))
        names = [f"{joined}.{kind}" for kind in kinds]
        self._node("Split", joined, outputs=names, axis=-1, num_outputs=len(kinds))
        return names

    def _attention(self, queries: str, keys: str, values: str) -> str:
        """Attention of all heads, [q, d]."""
        heads = {"domain": _MICROSOFT, "num_heads": self.config.num_attention_heads}
        attended = self._node("MultiHeadAttention", queries, keys, values, **heads)
        return self._node("Squeeze", attended, self._constant(np.array([0])))

    def _linear(self, states: str, *layers: str) -> str:
        """Linear layers of the same input, their outputs side by side: [t, d] to [t, e]."""
        weight = np.concatenate([self.weights[f"{name}.weight"] for name in layers]).T
        bias = self._constant(np.concatenate([self.weights[f"{name}.bias"] for name in layers]))
        if not self.int8:
            return self._node("Add", self._node("MatMul", states, self._constant(weight)), bias)
        steps = np.abs(weight).max(axis=0) / _LARGEST
        steps[steps == 0] = 1
        rounded = self._constant(np.round(weight / steps).astype(np.int8))
        zeros = self._constant(np.zeros(len(steps), dtype=np.int8))
        quantized = (states, rounded, self._constant(steps), zeros, bias)
        return self._node("DynamicQuantizeMatMul", *quantized, domain=_MICROSOFT)

    def _normalized(self, layer: str, states: str) -> str:
        """A LayerNorm."""
        weight, bias = (self._constant(self.weights[f"{layer}.{k}"]) for k in ("weight", "bias"))
        epsilon = self.config.layer_norm_eps
        return self._node("LayerNormalization", states, weight, bias, epsilon=epsilon)

    def _constant(self, array: np.ndarray) -> str:
        """A constant of the graph."""
        from onnx import numpy_helper

        name = f"constant.{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _node(self, operator: str, *inputs: str, outputs: list[str] | None = None, **given) -> str:
        """An operator; its first output."""
        from onnx import helper

        outputs = outputs or [f"{operator}.{len(self.nodes)}"]
        self.nodes.append(helper.make_node(operator, inputs, outputs, **given))
        return outputs[0]

    def model(self, states: str) -> ModelProto:
        """Give the whole graph, whose output is the value of the given name."""
        from onnx import TensorProto, helper

        self.nodes.append(helper.make_node("Identity", [states], ["states"]))
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, [length])
            for name, length in (("ids", "t"), ("segments", "t"), ("wanted", "w"))
        ]
        shape = ["w", self.config.hidden_size]
        output = helper.make_tensor_value_info("states", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "bert", inputs, [output], self.constants)
        versions = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=_IR_VERSION)
