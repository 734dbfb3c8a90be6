"""How much memory a training takes, and giving back what it no longer needs."""

from __future__ import annotations

import ctypes
import sys

import torch

try:
    import resource
except ImportError:  # Windows
    resource = None

# Of glibc alone.
_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def peak_memory_mb() -> float | None:
    """The most memory used so far, in MB: of the GPU if torch has used one, else of the process.

    None where the system does not tell.
    """
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated() / 2**20
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def release_memory() -> None:
    """Give the system back what has been freed.

    Tensors of a step are as long as its inputs, so that those of one step seldom fit in the gaps
    that another's have left. glibc keeps the gaps: gigabytes of them after some hundred steps.
    """
    if _malloc_trim is not None:
        _malloc_trim(0)
