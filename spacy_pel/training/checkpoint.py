"""All that a training needs to go on after a break, in one file that is replaced as a whole."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from spacy.util import dict_to_dot
from thinc.api import Config
from torch import Tensor

from ..errors import PelError
from ..models.packed_weights import DAMAGE, read_signed, signed


class Checkpoint(NamedTuple):
    """Weights, the optimizer's state and torch's random state by name, and the rest as plain data."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the file (safetensors), and only then replace the one at the path.

    PelError: safetensors cannot write the file. OSError: the system cannot write or replace it.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    tensors = {name: t.detach().cpu().contiguous() for name, t in checkpoint.tensors.items()}
    try:
        facts = {"facts": json.dumps(checkpoint.facts)}  # as a text, whose order stays
        save_file(tensors, temporary, metadata=signed(facts, tensors))
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
    """What ``save_checkpoint`` wrote; PelError if the file is no checkpoint, or damaged."""
    try:
        facts, tensors = read_signed(path)
        return Checkpoint(tensors, json.loads(facts["facts"]))
    except DAMAGE as error:
        raise PelError(
            f"{path}: is not a checkpoint, or it is damaged ({error})",
            "remove it to train from the beginning",
        ) from error


def check_same_config(checkpoint: Checkpoint, config: str) -> None:
    """Raise PelError if the training of a checkpoint had another config."""
    texts = (checkpoint.facts["config"], config)
    before, now = (dict_to_dot(Config().from_str(text)) for text in texts)
    changed = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
    if changed:
        raise PelError(
            f"the config differs from that of the checkpoint in {', '.join(changed[:5])}",
            "give the same config and overrides, or train into another folder",
        )


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
