"""Encoders in a file: safetensors, with all else that they need beside the weights.

Weights that are read from a file stay in it: they are mapped, come into memory when they are first
used, and are there once for all processes that read them. What changes them copies them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from ..errors import PelError

# What was packed: its file, or its bytes.
Packed = Path | bytes

# Where in the metadata of safetensors, which are texts, all of ours are.
_FACTS = "spacy_pel"


class Encoder(Protocol):
    """What can be packed: a torch module that can be made again of what it says of itself."""

    def description(self) -> dict[str, Any]:
        """All that decides what it does beside its weights, as plain data; {} without weights."""

    def weights(self) -> dict[str, Tensor]:
        """Its weights, by the names that they are to have in a file."""

    def restore(self, description: dict[str, Any], weights: dict[str, Tensor]) -> None:
        """Take what the two gave. Raises RuntimeError if they are of another kind of encoder."""

    def to(self, device: torch.device) -> object:
        """Move the weights."""


class Contents(NamedTuple):
    """What was packed.

    settings: as given. descriptions: of each encoder what it says of itself; {} without weights.
    tensors: by the encoder's number and their own name.
    """

    settings: dict[str, Any]
    descriptions: list[dict[str, Any]]
    tensors: dict[str, Tensor]

    def fill(self, encoders: Sequence[Encoder], device: torch.device) -> None:
        """Give the encoders, which are of the kinds that were packed, their weights.

        Raises RuntimeError if they are of other kinds.
        """
        for number, (encoder, description) in enumerate(zip(encoders, self.descriptions)):
            if description:
                prefix = f"{number}."
                encoder.restore(
                    description,
                    {k[len(prefix) :]: v for k, v in self.tensors.items() if k.startswith(prefix)},
                )
                encoder.to(device)


def pack(encoders: Sequence[Encoder], settings: dict[str, Any]) -> bytes:
    """The encoders and some settings, plain data, as the bytes of a safetensors file; no pickle."""
    described, tensors = [], {}
    for number, encoder in enumerate(encoders):
        described.append(encoder.description())
        for name, tensor in encoder.weights().items():
            tensors[f"{number}.{name}"] = tensor.contiguous().cpu()
    # One text: safetensors keeps no order among several.
    facts = json.dumps({"settings": settings, "encoders": described}, sort_keys=True)
    return save(tensors, {_FACTS: facts})


def unpack(packed: Packed) -> Contents:
    """What ``pack`` gave; needs no network.

    Raises PelError if it gave no such thing, OSError if the file cannot be read.
    """
    try:
        if isinstance(packed, bytes):
            tensors, metadata = load(packed), _metadata(packed)
        else:
            with safe_open(packed, "pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}
                metadata = file.metadata() or {}
        facts = json.loads(metadata[_FACTS])
    except (SafetensorError, KeyError) as error:
        where = "bytes" if isinstance(packed, bytes) else packed
        raise PelError(
            f"{where}: no weights of a linker of this version, or damaged ({error})",
            "save the pipeline again, or train it again",
        ) from error
    return Contents(facts["settings"], facts["encoders"], tensors)


def _metadata(packed: bytes) -> dict[str, str]:
    """Of the bytes of a safetensors file: JSON after eight bytes that give its length."""
    length = int.from_bytes(packed[:8], "little")
    return json.loads(packed[8 : 8 + length]).get("__metadata__", {})
