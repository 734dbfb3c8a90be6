"""Write the graph of a model in the ONNX format, for ONNX Runtime.

The format is protobuf's: each message is a sequence of fields, with the numbers of ``onnx.proto``. The
package ``onnx`` writes it, too, but importing that takes 50 ms and 7 MB.
"""

import struct
from collections.abc import Sequence

import numpy as np

# The versions of the format and of the operators, and the domain of ONNX Runtime's own operators.
_IR_VERSION, _OPSET, MICROSOFT = 10, 20, "com.microsoft"
_TYPES = {"float32": 1, "int8": 3, "int64": 7}  # of tensors
_FLOAT, _INT = 1, 2  # types of attributes
Field = tuple[int, int | float | str | bytes]  # its number and its value


def _message(*fields: Field) -> bytes:
    return b"".join(part for number, value in fields for part in _parts(number, value))


def _parts(number: int, value: int | float | str | bytes) -> tuple[bytes, ...]:
    """Return a field: its number and its kind, then an integer, a float32, or a length and bytes."""
    if isinstance(value, float):
        return _varint(number << 3 | 5), struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3), _varint(value)
    value = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2), _varint(len(value)), value


def _varint(value: int) -> bytes:
    """Return an integer in groups of 7 bits, the lowest first; a negative one as 64 bits."""
    value &= (1 << 64) - 1
    groups = [value & 127]
    while value := value >> 7:
        groups[-1] |= 128
        groups.append(value & 127)
    return bytes(groups)


def tensor(name: str, values: np.ndarray) -> bytes:
    """Return a constant: float32, int8 or int64."""
    shape: list[Field] = [(1, size) for size in values.shape]
    return _message(*shape, (2, _TYPES[values.dtype.name]), (8, name), (9, values.tobytes()))


def value_info(name: str, dtype: str, *shape: int | str) -> bytes:
    """Return the description of an input or output. A size of any value has a name."""
    sizes = [_message((1 if isinstance(size, int) else 2, size)) for size in shape]
    shapes = _message(*((1, size) for size in sizes))
    kind = _message((1, _message((1, _TYPES[dtype]), (2, shapes))))
    return _message((1, name), (2, kind))


def node(
    operator: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    domain: str = "",
    **attributes: int | float,
) -> bytes:
    """Return an operator."""
    fields: list[Field] = [*((1, name) for name in inputs), *((2, name) for name in outputs)]
    for name, value in attributes.items():
        place, kind = (2, _FLOAT) if isinstance(value, float) else (3, _INT)
        fields.append((5, _message((1, name), (place, value), (20, kind))))
    return _message(*fields, (4, operator), (7, domain))


def model(
    nodes: Sequence[bytes],
    constants: Sequence[bytes],
    inputs: Sequence[bytes],
    outputs: Sequence[bytes],
) -> bytes:
    """Return a model: a graph of nodes, in an order in which they can be computed."""
    lists = (1, nodes), (5, constants), (11, inputs), (12, outputs)
    graph = _message((2, "graph"), *((number, part) for number, parts in lists for part in parts))
    opsets = [
        _message((1, domain), (2, version)) for domain, version in (("", _OPSET), (MICROSOFT, 1))
    ]
    return _message((1, _IR_VERSION), (7, graph), *((8, opset) for opset in opsets))
