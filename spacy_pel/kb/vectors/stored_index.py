"""Opens the vectors of a segment, as the manifest of a KB describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...errors import PelError
from .faiss_library import has_gpu
from .fast_scan import FAST_SCAN_KIND, FastScan
from .index import VectorIndex
from .inverted_file import InvertedFile
from .matrix import VectorMatrix, mapped
from .projection import Projection
from .row_finder import RowFinder

_GPU_ROWS = 300_000  # with up to this many rows, a GPU searches all vectors faster than a CPU codes


def opened_index(folder: Path, entry: dict[str, Any], dim: int) -> VectorIndex:
    """The index of a segment, mapped into memory.

    Args:
        folder: The KB folder.
        entry: The segment's "vectors" entry in the manifest.
        dim: The length of queries.

    Raises:
        PelError: A file cannot be read, or holds vectors of another length.
    """
    matrix, row_entities = opened_rows(folder, entry)
    finder, projection = _opened_finder(folder, entry), opened_projection(folder, entry)
    index = VectorIndex(matrix, row_entities, finder, projection)
    if index.dim != dim:
        raise PelError(
            f"{folder / entry['file']}: {index.dim} dimensions, expected {dim}",
            "embed the KB again",
        )
    return index


def opened_rows(folder: Path, entry: dict[str, Any]) -> tuple[VectorMatrix, np.ndarray]:
    """The rows of a segment and the entity of each row, mapped into memory.

    Args:
        folder: The KB folder.
        entry: The segment's "vectors" entry in the manifest.

    Raises:
        PelError: A file cannot be read.
    """
    scales = entry["scales_file"]
    matrix = VectorMatrix.opened(folder / entry["file"], folder / scales if scales else None)
    return matrix, mapped(folder / entry["rows_file"])


def opened_projection(folder: Path, entry: dict[str, Any]) -> Projection | None:
    """The projection that a segment's rows were stored with; None if they are stored whole.

    Args:
        folder: The KB folder.
        entry: The segment's "vectors" entry in the manifest.

    Raises:
        PelError: The file of the projection cannot be read.
    """
    name = entry.get("basis_file")  # older manifests do not have this key
    return Projection.opened(folder / name) if name else None


def _opened_finder(folder: Path, entry: dict[str, Any]) -> RowFinder | None:
    """The approximate index of a segment; None if search looks at every row."""
    settings = entry["index"]
    if settings is None:
        return None
    if settings["kind"] != FAST_SCAN_KIND:
        return InvertedFile.opened(folder, settings)
    on_gpu = entry["rows"] <= _GPU_ROWS and has_gpu()
    return None if on_gpu else FastScan.opened(folder, settings)
