"""Reduces a KB to shorter vectors or fewer codes, for less memory and faster search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ...errors import PelError
from ..folder.manifest import read_manifest
from ..folder.transaction import Transaction, folder_transaction
from ..knowledge_base import KnowledgeBase
from ..vectors.fast_scan import FAST_SCAN_KIND
from ..vectors.matrix import VectorMatrix
from ..vectors.projection import Projection, principal_projection
from ..vectors.stored_index import opened_projection, opened_rows
from .segment_entries import check_copied, index_settings
from .vector_writing import commit_vectors, only_segment, write_segment_vectors


def reduce_vectors(
    path: str | Path, dim: int | None = None, alike: float | None = None
) -> tuple[KnowledgeBase, float]:
    """Stores vectors in fewer numbers, or lets rows share codes of the index, or both.

    A reduced vector is the projection of the vector onto the principal axes of all vectors, scaled
    to the same length. Queries keep their length, and are projected by each search. So a pipeline
    that was trained for the KB works as before. Until the very end, and after any error or
    interruption, the KB stays as it was.

    Args:
        path: The KB folder.
        dim: The length of the stored vectors; None keeps the vectors as they are.
        alike: Rows of one entity with this cosine or more share a code. There are fewer codes then,
            and some of the last candidates differ. None keeps the codes.

    Returns:
        The KB, opened again, and the share of the vectors' squared length that was kept.

    Raises:
        PelError: There is no KB, or it is damaged, or it has no vectors, or they are not longer than ``dim``, or they
            were reduced before, or the KB changed since it was built or compacted, or its index has
            no codes to share, or neither argument is given, or the disk is full.
    """
    if dim is None and alike is None:
        raise PelError("nothing to reduce", "give the length of a vector, or --alike, or both")
    folder = Path(path).absolute()
    read_manifest(folder)  # if there is no KB, no folder is made
    with folder_transaction(folder) as transaction:
        manifest = read_manifest(folder)
        segment = only_segment(folder, manifest)
        entry = _with_vectors(folder, segment["vectors"])
        check_copied(transaction, manifest, [segment])
        settings = index_settings([segment])
        if alike is not None:
            _check_alike(folder, entry["index"], alike)
            settings["alike"] = alike
        matrix, row_entities = opened_rows(folder, entry)
        projection, batches, share = (
            opened_projection(folder, entry),
            _rows(matrix, row_entities),
            1.0,
        )
        if dim is not None:
            _check_dim(folder, entry, matrix, dim)
            projection, share = principal_projection(matrix, dim)
            batches = ((projection.projected_rows(rows), numbers) for rows, numbers in batches)
        reduced = write_segment_vectors(
            transaction,
            batches,
            segment["count"],
            dim or matrix.dim,
            dtype=manifest["vectors"]["dtype"],
            index="approximate" if entry["index"] else "exact",
            **settings,
            projection_file=None
            if projection is None
            else _published_projection(transaction, projection),
        )
        commit_vectors(transaction, manifest, reduced, manifest["vectors"])
    return KnowledgeBase.open(folder), share


def _with_vectors(folder: Path, entry: dict | None) -> dict:
    if entry is None:
        raise PelError(
            f"{folder} has no vectors", f"run: python -m spacy pel kb embed {folder} PIPELINE"
        )
    return entry


def _check_dim(folder: Path, entry: dict, matrix: VectorMatrix, dim: int) -> None:
    if entry.get("basis_file"):
        raise PelError(
            f"{folder}: its vectors were reduced before",
            f"to choose another length, first run: python -m spacy pel kb embed {folder} PIPELINE",
        )
    if not 1 <= dim < matrix.dim:
        raise PelError(
            f"{folder}: its vectors have {matrix.dim} numbers",
            f"choose from 1 to {matrix.dim - 1} of them, not {dim}",
        )


def _check_alike(folder: Path, index: dict | None, alike: float) -> None:
    if not 0 < alike < 1:
        raise PelError(f"--alike {alike} is not between 0 and 1", "choose a cosine such as 0.95")
    if not index or index["kind"] != FAST_SCAN_KIND:
        raise PelError(
            f"{folder}: has no index of the kind {FAST_SCAN_KIND}",
            "reduce it without --alike (fewer vectors "
            "than such an index is for are searched exactly, more by lists)",
        )


def _rows(
    matrix: VectorMatrix, row_entities: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start, block in matrix.blocks():
        yield block, row_entities[start : start + len(block)]


def _published_projection(transaction: Transaction, projection: Projection) -> str:
    file = transaction.temporary(".npy")
    np.save(file, projection.axes)
    return transaction.publish(file, "basis")
