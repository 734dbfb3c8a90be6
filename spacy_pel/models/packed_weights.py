"""Save and load encoders as safetensors: their weights, configuration and tokenizer.

Weights are memory-mapped: they are read when they are first used, and all processes share one copy. Training
copies them.

Weights that are exact float16 numbers are stored as float16. The matrices of a BERT stay float16 when they
are read. Other weights are read as float32 copies.
"""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor, nn

from ..errors import PelError

Packed = Path | bytes

# The key of our metadata in a safetensors file.
_FACTS = "spacy_pel"
# Stored with the metadata, since safetensors has no checksum.
_CHECKSUM = "checksum"
# Weights of a BERT that keep their stored dtype: its layers cast them for inference.
_KEPT = tuple(f"{k}.weight" for k in ("word_embeddings", "query", "key", "value", "dense"))
# The errors of ``read_signed`` for a file of another kind or a damaged one.
DAMAGE = (SafetensorError, KeyError, TypeError, ValueError, AttributeError)


class Packable(Protocol):
    """An encoder that can be packed (``models.encoders``)."""

    def description(self) -> dict[str, Any]: ...
    def weights(self) -> dict[str, Tensor]: ...
    def restore(self, description: dict[str, Any], weights: dict[str, Tensor]) -> None: ...
    def to(self, device: torch.device) -> nn.Module: ...


class Contents(NamedTuple):
    """The contents of a packed file.

    Attributes:
        settings: Plain data.
        descriptions: The description of each encoder; {} for one without weights.
        tensors: The weights of all encoders, by "<number of the encoder>.<name>".
    """

    settings: dict[str, Any]
    descriptions: list[dict[str, Any]]
    tensors: dict[str, Tensor]

    def fill(self, encoders: Sequence[Packable], device: torch.device) -> None:
        """Restore encoders of the same kinds and in the same order as the packed ones.

        Raises:
            RuntimeError: The weights are those of another kind of encoder.
        """
        for number, (encoder, description) in enumerate(zip(encoders, self.descriptions)):
            if description:
                encoder.restore(description, under(f"{number}.", self.tensors))
                encoder.to(device).eval()  # training then starts with a change of mode, to float32


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names start with the prefix, without it."""
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}


def pack(encoders: Sequence[Packable], settings: dict[str, Any]) -> bytes:
    """Return the bytes of a safetensors file with encoders and plain data."""
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
    """Read the output of ``pack`` from a file or bytes.

    Raises:
        PelError: The file is damaged or of another kind.
    """
    try:
        facts, tensors = read_signed(packed)
        weights = {k: v if k.endswith(_KEPT) else v.float() for k, v in tensors.items()}
        return Contents(facts["settings"], facts["encoders"], weights)
    except DAMAGE as error:
        where = "bytes" if isinstance(packed, bytes) else packed
        raise PelError(
            f"{where}: damaged, or not the weights of a linker of this version ({error})",
            "save the pipeline again, or train it again",
        ) from error


def signed(facts: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, str]:
    """Return the metadata of a safetensors file: facts as plain data, with a checksum of everything."""
    # One string: safetensors does not keep the order of several.
    return {_FACTS: _text({**facts, _CHECKSUM: _checksum(facts, tensors)})}


def read_signed(packed: Packed) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the facts and tensors of a safetensors file, or its bytes, with metadata of ``signed``."""
    if isinstance(packed, bytes):
        # The first eight bytes are the length of the JSON metadata that follow.
        length = int.from_bytes(packed[:8], "little")
        metadata = json.loads(packed[8 : 8 + length])["__metadata__"]
    else:
        with safe_open(packed, "pt") as file:
            metadata = file.metadata()
    facts = json.loads(metadata[_FACTS])
    if facts.pop(_CHECKSUM) != _checksum(facts, read_tensors(packed)):
        raise ValueError("its checksum does not match")
    # Map the file again, so that pages read for the checksum alone can leave memory.
    return facts, read_tensors(packed)


def read_tensors(packed: Packed) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, mapped, or of its bytes."""
    if isinstance(packed, bytes):
        tensors: dict[str, Tensor] = load(packed)
        return tensors
    with safe_open(packed, "pt") as file:
        return {name: file.get_tensor(name) for name in list(file.keys())}


def _checksum(facts: dict[str, Any], tensors: dict[str, Tensor]) -> int:
    """Return the CRC-32 of facts and tensors. It takes 0.1 to 0.5 s for a BERT base."""
    checksum = zlib.crc32(_text(facts).encode())
    for name, tensor in sorted(tensors.items()):
        header = f"{name} {tensor.dtype} {list(tensor.shape)} ".encode()
        checksum = zlib.crc32(header, checksum)
        checksum = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, checksum)
    return checksum


def _text(facts: dict[str, Any]) -> str:
    return json.dumps(facts, sort_keys=True)
