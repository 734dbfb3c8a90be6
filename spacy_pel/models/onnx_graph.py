"""The ONNX graph of a BERT, in float32 or with 8-bit matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from ..errors import PelError

if TYPE_CHECKING:
    from onnx import ModelProto

# The largest of the 8-bit weights: 7 bits. Processors without VNNI instructions add pairs of
# products in 16 bits, where 8 bits would overflow; and so all processors compute the same.
_LARGEST = 63
# Versions of the format, of ONNX's operators and of ONNX Runtime's own.
_IR_VERSION, _OPSET, _MICROSOFT = 10, 20, "com.microsoft"


def bert_graph(transformer: nn.Module, *, int8: bool) -> ModelProto:
    """The graph of a BERT: ids, segments, int64 [t], wanted, int64 [w] -> states, float32 [w, d].

    wanted: the tokens, counted from 0, whose states the last layer is computed for.

    Raises PelError if the BERT is not on the CPU, or has another activation than "gelu".
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
    """The operators of a graph, and its constants; methods give the names of what they compute."""

    def __init__(self, transformer: nn.Module, int8: bool):
        self.config = transformer.config
        self.int8 = int8
        self.weights = {k: v.detach().numpy() for k, v in transformer.state_dict().items()}
        self.nodes: list = []
        self.constants: list = []

    def embedded(self, ids: str, segments: str) -> str:
        """The input embeddings, [t, d]."""
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
        """One layer of BERT: [t, d] -> [t, d], or [w, d] of the tokens wanted."""
        if wanted is None:
            attended = self._attended(f"{layer}.attention.self", states)
        else:
            asking = self._node("Gather", states, wanted)
            attended = self._attended_by(f"{layer}.attention.self", asking, states)
            states = asking
        attended = self._linear(attended, f"{layer}.attention.output.dense")
        states = self._normalized(
            f"{layer}.attention.output.LayerNorm", self._node("Add", attended, states)
        )
        inner = self._node("Gelu", self._linear(states, f"{layer}.intermediate.dense"))
        outer = self._linear(inner, f"{layer}.output.dense")
        return self._normalized(f"{layer}.output.LayerNorm", self._node("Add", outer, states))

    def _attended(self, attention: str, states: str) -> str:
        """What the heads read, [t, d]. Queries, keys and values are one product of matrices."""
        return self._read(*self._parted(attention, states, "query", "key", "value"))

    def _attended_by(self, attention: str, asking: str, states: str) -> str:
        """What the heads of some of the tokens read of all: [w, d], [t, d] -> [w, d]."""
        queries = self._parted(attention, asking, "query")
        return self._read(*queries, *self._parted(attention, states, "key", "value"))

    def _parted(self, attention: str, states: str, *parts: str) -> list[str]:
        """Queries, keys or values, each [1, t, d], by one product of matrices."""
        linear = self._linear(states, *(f"{attention}.{part}" for part in parts))
        joined = self._node("Unsqueeze", linear, self._constant(np.array([0])))
        names = [f"{joined}.{part}" for part in parts]
        self._node("Split", joined, outputs=names, axis=-1, num_outputs=len(parts))
        return names

    def _read(self, queries: str, keys: str, values: str) -> str:
        heads = {"domain": _MICROSOFT, "num_heads": self.config.num_attention_heads}
        read = self._node("MultiHeadAttention", queries, keys, values, **heads)
        return self._node("Squeeze", read, self._constant(np.array([0])))

    def _linear(self, states: str, *layers: str) -> str:
        """Linear layers that read the same, side by side: [t, d] -> [t, e]."""
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
        weight, bias = (self._constant(self.weights[f"{layer}.{k}"]) for k in ("weight", "bias"))
        epsilon = self.config.layer_norm_eps
        return self._node("LayerNormalization", states, weight, bias, epsilon=epsilon)

    def _constant(self, array: np.ndarray) -> str:
        from onnx import numpy_helper

        name = f"constant.{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _node(self, operator: str, *inputs: str, outputs: list[str] | None = None, **given):
        from onnx import helper

        outputs = outputs or [f"{operator}.{len(self.nodes)}"]
        self.nodes.append(helper.make_node(operator, inputs, outputs, **given))
        return outputs[0]

    def model(self, states: str) -> ModelProto:
        """The whole, whose output is the states of that name."""
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
