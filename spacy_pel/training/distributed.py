"""Several processes that train as one, each with a GPU or with some of the cores.

torch's launcher starts them: ``torchrun --nproc-per-node 2 -m spacy pel train ...``. All of them
draw the same batches. Each learns from its share of a batch's documents. The gradients are averaged
before each update, so that all processes have the same weights. The first one saves.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeVar

import torch
from torch import distributed, nn

T = TypeVar("T")


def join() -> None:
    """Join the other processes, if torch's launcher has started several."""
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")


def local_rank() -> int:
    """The number of this process on its computer, and so of its GPU."""
    return int(os.environ.get("LOCAL_RANK", 0))


def world_size() -> int:
    """The number of processes."""
    return distributed.get_world_size() if _has_joined() else 1


def is_first() -> bool:
    """Whether this is the process that saves and reports."""
    return not _has_joined() or distributed.get_rank() == 0


def share(items: Sequence[T]) -> list[T]:
    """The part of the items that is this process' own. Together the parts are all items."""
    return list(items[distributed.get_rank() :: world_size()] if _has_joined() else items)


def average_gradients(weights: Iterable[nn.Parameter]) -> None:
    """Replace each gradient by its mean over all processes. A missing one counts as zeros."""
    if not _has_joined():
        return
    for weight in weights:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        distributed.all_reduce(weight.grad)
        weight.grad /= world_size()


def leave() -> None:
    """Leave the other processes at the end."""
    if _has_joined():
        distributed.destroy_process_group()


def _has_joined() -> bool:
    return distributed.is_available() and distributed.is_initialized()
