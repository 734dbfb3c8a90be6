"""Several processes, each with a GPU (or a part of the cores), that train as one.

torch's launcher starts them: ``torchrun --nproc-per-node 2 -m spacy pel train ...``. All draw the
same batches, each learns from its share of a batch's documents, and the gradients are averaged
before each update, so that the weights stay the same in all of them. The first one saves.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeVar

import torch
from torch import distributed, nn

T = TypeVar("T")


def join() -> None:
    """Join the others, if torch's launcher has started several processes."""
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")


def local_rank() -> int:
    """The number of this process on its computer, and so of its GPU."""
    return int(os.environ.get("LOCAL_RANK", 0))


def world_size() -> int:
    return distributed.get_world_size() if _has_joined() else 1


def is_first() -> bool:
    """Whether this is the process that saves and reports."""
    return not _has_joined() or distributed.get_rank() == 0


def share(items: Sequence[T]) -> list[T]:
    """This process' part of the items; all parts together are all items."""
    return list(items[distributed.get_rank() :: world_size()] if _has_joined() else items)


def average_gradients(weights: Iterable[nn.Parameter]) -> None:
    """Give every process the mean of all processes' gradients; a missing one counts as zeros."""
    if not _has_joined():
        return
    for weight in weights:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        distributed.all_reduce(weight.grad)
        weight.grad /= world_size()


def leave() -> None:
    if _has_joined():
        distributed.destroy_process_group()


def _has_joined() -> bool:
    return distributed.is_available() and distributed.is_initialized()
