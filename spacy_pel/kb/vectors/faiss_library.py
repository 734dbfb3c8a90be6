"""FAISS as this package uses it: imported when it is needed, with errors that say what to do."""

from __future__ import annotations

import errno
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...errors import PelError


def imported_faiss() -> ModuleType:
    """The module faiss; PelError if it is not installed."""
    try:
        import faiss
    except ImportError as error:
        raise PelError(
            "FAISS is not installed",
            'run: pip install "spacy-pel[cpu]"  (or "spacy-pel[gpu]" with a GPU)',
        ) from error
    return faiss


def has_gpu() -> bool:
    """Whether FAISS has a GPU to search on."""
    faiss = imported_faiss()
    return hasattr(faiss, "pairwise_distance_gpu") and faiss.get_num_gpus() > 0


def all_products(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The inner products of all queries with all rows, float32; on a GPU if FAISS has one.

    On a CPU numpy multiplies, because the BLAS in FAISS's packages takes five to seven times as long
    (benchmarks/speed).
    """
    if not has_gpu():
        return queries @ rows.T
    faiss = imported_faiss()
    return faiss.pairwise_distance_gpu(
        _gpu_resources(), queries, rows, metric=faiss.METRIC_INNER_PRODUCT
    )


@cache
def _gpu_resources() -> object:
    """FAISS's working memory on the GPU, allocated once."""
    return imported_faiss().StandardGpuResources()


def write_index(faiss_index: Any, path: Path) -> None:
    """Writes a FAISS index to a file; OSError if the disk is full."""
    try:
        imported_faiss().write_index(faiss_index, str(path))
    except RuntimeError as error:
        raise OSError(errno.ENOSPC, "the vectors could not be written whole") from error
