"""All that a training needs to go on after a break, in one file that is replaced as a whole."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from thinc.api import Config
from torch import Tensor

from ..errors import PelError


class Checkpoint(NamedTuple):
    """Weights, the optimizer's state and torch's random state by name, and the rest as plain data."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]

    def tensors_under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with the prefix, by their names without it."""
        return {k[len(prefix) :]: v for k, v in self.tensors.items() if k.startswith(prefix)}


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the file (safetensors), and only then replace the one at the path.

    Raises:
        PelError: safetensors cannot write the file.
        OSError: the system cannot write or replace it.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    tensors = {name: t.detach().cpu().contiguous() for name, t in checkpoint.tensors.items()}
    try:
        facts = json.dumps(checkpoint.facts)
        metadata = {"facts": facts, "checksum": _checksum(facts, tensors)}
        save_file(tensors, temporary, metadata=metadata)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except SafetensorError as error:
        raise PelError(
            f"{path}: cannot be written ({error})", "make space on its disk and go on with --resume"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read what ``save_checkpoint`` wrote. Checkpoints of earlier versions have no checksum.

    Raises:
        PelError: the file is not a checkpoint, or it is damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        facts = metadata.pop("facts")
        if metadata and metadata != {"checksum": _checksum(facts, tensors)}:
            raise ValueError("its checksum is another")
        return Checkpoint(tensors, json.loads(facts))
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise PelError(
            f"{path}: is not a checkpoint, or it is damaged ({error})",
            "remove it to train from the beginning",
        ) from error


def _checksum(facts: str, tensors: dict[str, Tensor]) -> str:
    """A digest of all that is in a checkpoint, whatever the order of the tensors."""
    digest = hashlib.blake2b(facts.encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def check_same_config(checkpoint: Checkpoint, config: str) -> None:
    """Raise PelError if the training of a checkpoint had another config."""
    before, now = (_settings(text) for text in (checkpoint.facts["config"], config))
    changed = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
    if changed:
        raise PelError(
            f"the config differs from that of the checkpoint in {', '.join(changed[:5])}",
            "give the same config and overrides, or train into another folder",
        )


def _settings(config: str) -> dict[str, Any]:
    """The values of a config by the full names of their settings."""

    def flatten(section: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in section.items():
            if isinstance(value, dict):
                yield from flatten(value, f"{prefix}{key}.")
            else:
                yield prefix + key, value

    return dict(flatten(Config().from_str(config), ""))


def random_states() -> Checkpoint:
    """The states of all random generators: torch's as tensors, the others as facts."""
    name, keys, *rest = np.random.get_state()
    tensors = {"torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["cuda"] = torch.cuda.get_rng_state()
    return Checkpoint(tensors, {"python": random.getstate(), "numpy": [name, keys.tolist(), *rest]})


def set_random_states(states: Checkpoint) -> None:
    """Set all random generators to these states."""
    set_python_random(states.facts["python"])
    np.random.set_state(tuple(states.facts["numpy"]))
    torch.set_rng_state(states.tensors["torch"])
    if torch.cuda.is_available() and "cuda" in states.tensors:
        torch.cuda.set_rng_state(states.tensors["cuda"])


def set_python_random(state: list) -> None:
    """Set ``random`` to a state that was written as JSON and read again."""
    version, keys, gauss = state
    random.setstate((version, tuple(keys), gauss))
