import numpy as np
import onnxruntime
import pytest

from spacy_pel.models import onnx_format as onnx


@pytest.mark.parametrize("axis", [-1, 0])
def test_onnx_runtime_reads_what_is_written(axis: int) -> None:
    """Constants of each type, attributes, inputs of any size, and numbers of many bytes."""
    rows, epsilon = np.random.default_rng(0).random((300, 5)).astype(np.float32), 0.25
    picked, steps = np.array([7, 299, 7]), np.array([[1, -2, 3, -4, 127]], np.int8)
    constants = {"rows": rows, "steps": steps, "scale": np.ones(rows.shape[axis:], np.float32)}
    graph = onnx.model(
        [
            onnx.node("Cast", ["steps"], ["whole"], to=1),
            onnx.node("Add", ["rows", "whole"], ["sum"]),
            onnx.node("LayerNormalization", ["sum", "scale"], ["n"], axis=axis, epsilon=epsilon),
            onnx.node("Gather", ["n", "places"], ["found"]),
        ],
        [onnx.tensor(*constant) for constant in constants.items()],
        [onnx.value_info("places", "int64", "n")],
        [onnx.value_info("found", "float32", "n", 5)],
    )
    [found] = onnxruntime.InferenceSession(graph).run(["found"], {"places": picked})
    sums, axes = rows + steps, (1,) if axis else (0, 1)
    centred = sums - sums.mean(axes, keepdims=True)
    expected = centred / np.sqrt(sums.var(axes, keepdims=True) + epsilon)
    np.testing.assert_allclose(found, expected[picked], rtol=1e-5, atol=1e-5)
