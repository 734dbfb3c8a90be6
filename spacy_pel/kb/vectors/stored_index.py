"""Opens the vectors of a segment, as the manifest of a KB describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...errors import PelError
from ...system.damaged_files import damaged
from .faiss_library import has_gpu
from .fast_scan import FAST_SCAN_KIND, FastScan
from .index import VectorIndex
from .inverted_file import InvertedFile
from .matrix import VectorMatrix, mapped
from .projection import Projection
from .row_finder import RowFinder

_PIECE = 1 << 20  # numbers compared at a time
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
    finder, projection = _opened_finder(folder, entry, matrix), opened_projection(folder, entry)
    if projection and projection.width != matrix.dim:
        raise damaged(folder / entry["basis_file"], f"does not hold {matrix.dim} axes")
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
        PelError: A file cannot be read, or holds something other than the entry says.
    """
    scales = entry["scales_file"]
    matrix = VectorMatrix.opened(folder / entry["file"], folder / scales if scales else None)
    if len(matrix) != entry["rows"]:
        raise damaged(folder / entry["file"], f"does not hold {entry['rows']} vectors")
    rows_file = folder / entry["rows_file"]
    row_entities = mapped(rows_file)
    if row_entities.shape != (len(matrix),) or row_entities.dtype.kind != "i":
        raise damaged(rows_file, f"does not name the entities of {len(matrix)} vectors")
    if len(row_entities) and (row_entities[0] < 0 or _descend(row_entities)):
        raise damaged(rows_file, "does not hold ascending numbers of entities")
    return matrix, row_entities


def _descend(numbers: np.ndarray) -> bool:
    """Whether any of the numbers is smaller than the one before."""
    pieces = (numbers[start : start + _PIECE + 1] for start in range(0, len(numbers), _PIECE))
    return any((piece[1:] < piece[:-1]).any() for piece in pieces)


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


def _opened_finder(folder: Path, entry: dict[str, Any], matrix: VectorMatrix) -> RowFinder | None:
    """The approximate index of a segment; None if search looks at every row."""
    settings = entry["index"]
    if settings is None:
        return None
    fast_scan = settings["kind"] == FAST_SCAN_KIND
    if fast_scan and entry["rows"] <= _GPU_ROWS and has_gpu():
        return None
    finder = (FastScan if fast_scan else InvertedFile).opened(folder, settings)
    if not finder.fits(matrix):
        raise damaged(folder / settings["file"], f"is no index of {len(matrix)} vectors")
    return finder
