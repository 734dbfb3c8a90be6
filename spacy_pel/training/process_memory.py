"""The memory of this process: the most it has used, and returning what it no longer needs."""

from __future__ import annotations

import ctypes
import sys

import torch

try:
    import resource
except ImportError:  # Windows
    resource = None

# Only glibc has it.
_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def peak_memory_mb() -> float | None:
    """The most memory used so far.

    Returns:
        MB of the GPU if torch has used one, otherwise MB of the process. None if the system does
        not report it.
    """
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated() / 2**20
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def release_memory() -> None:
    """Return freed memory to the system.

    The tensors of a step are as long as its inputs, so they seldom fit into the gaps that those
    of another step have left. glibc keeps the gaps: after some hundred steps, gigabytes of them.
    """
    if _malloc_trim is not None:
        _malloc_trim(0)
