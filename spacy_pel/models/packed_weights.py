"""Encoders in a safetensors file: their weights and everything else that they need.

Weights that are read from a file stay in it. They are mapped: they come into memory when they are
first used, and all processes that read them share one copy. Training copies them.

Weights that are all float16 numbers are packed as such, in half the bytes. The matrices of a BERT stay
float16 when they are read. Other weights are read as float32, which is a copy.
"""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor, nn

from ..errors import PelError

Packed = Path | bytes

# The key of our metadata in a safetensors file. Metadata are texts by name.
_FACTS = "spacy_pel"
# Among the facts: safetensors itself has no checksum.
_CHECKSUM = "checksum"
# Those of a BERT that stay as they were stored: it makes what it computes with.
_KEPT = tuple(f"{k}.weight" for k in ("word_embeddings", "query", "key", "value", "dense"))
# What ``read_signed`` raises for what is no such file, or is damaged.
DAMAGE = (SafetensorError, KeyError, TypeError, ValueError, AttributeError)


class Contents(NamedTuple):
    """What was packed: settings, and of each encoder its description, which is {} without weights.

    ``tensors`` has the weights of all encoders, each by "number of the encoder.name".
    """

    settings: dict[str, Any]
    descriptions: list[dict[str, Any]]
    tensors: dict[str, Tensor]

    def fill(self, encoders: Sequence[nn.Module], device: torch.device) -> None:
        """Restore encoders of the kinds that were packed, in their order; RuntimeError for others."""
        for number, (encoder, description) in enumerate(zip(encoders, self.descriptions)):
            if description:
                encoder.restore(description, under(f"{number}.", self.tensors))
                encoder.to(device).eval()  # training begins with a change: float16 becomes float32


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, by their names without it."""
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}


def pack(encoders: Sequence[nn.Module], settings: dict[str, Any]) -> bytes:
    """The bytes of a safetensors file of modules of ``encoders``, and of plain data kept with them."""
    tensors = {}
    for number, encoder in enumerate(encoders):
        weights = encoder.weights()
        halves = {name: tensor.half() for name, tensor in weights.items()}
        if all(torch.equal(halves[name].float(), tensor) for name, tensor in weights.items()):
            weights = halves
        for name, tensor in weights.items():
            tensors[f"{number}.{name}"] = tensor.contiguous().cpu()
    facts = {"settings": settings, "encoders": [encoder.description() for encoder in encoders]}
    return save(tensors, signed(facts, tensors))


def unpack(packed: Packed) -> Contents:
    """Read what ``pack`` gave, from a file or bytes. Raises PelError if it is no such, or damaged."""
    try:
        facts, tensors = read_signed(packed)
        weights = {k: v if k.endswith(_KEPT) else v.float() for k, v in tensors.items()}
        return Contents(facts["settings"], facts["encoders"], weights)
    except DAMAGE as error:
        where = "bytes" if isinstance(packed, bytes) else packed
        raise PelError(
            f"{where}: no weights of a linker of this version, or damaged ({error})",
            "save the pipeline again, or train it again",
        ) from error


def signed(facts: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, str]:
    """The metadata of a safetensors file of the tensors: facts as plain data, and a checksum of all."""
    # One text: safetensors keeps no order among several.
    return {_FACTS: _text({**facts, _CHECKSUM: _checksum(facts, tensors)})}


def read_signed(packed: Packed) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts and the tensors of a safetensors file with metadata of ``signed``, or of its bytes."""
    if isinstance(packed, bytes):
        # The metadata are JSON after eight bytes that give its length.
        length = int.from_bytes(packed[:8], "little")
        metadata = json.loads(packed[8 : 8 + length])["__metadata__"]
    else:
        with safe_open(packed, "pt") as file:
            metadata = file.metadata()
    facts = json.loads(metadata[_FACTS])
    if facts.pop(_CHECKSUM) != _checksum(facts, _tensors(packed)):
        raise ValueError("its checksum is another")
    # Mapped once more: of what the checksum has read, only what is used later stays in memory.
    return facts, _tensors(packed)


def _tensors(packed: Packed) -> dict[str, Tensor]:
    if isinstance(packed, bytes):
        return load(packed)
    with safe_open(packed, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def _checksum(facts: dict[str, Any], tensors: dict[str, Tensor]) -> int:
    """The CRC-32 of facts and tensors: it finds damage, and takes 0.1 to 0.5 s for a BERT base."""
    checksum = zlib.crc32(_text(facts).encode())
    for name, tensor in sorted(tensors.items()):
        header = f"{name} {tensor.dtype} {list(tensor.shape)} ".encode()
        checksum = zlib.crc32(header, checksum)
        checksum = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy(), checksum)
    return checksum


def _text(facts: dict[str, Any]) -> str:
    return json.dumps(facts, sort_keys=True)
