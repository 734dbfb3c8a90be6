"""Writes the vectors of a KB: first the rows, in batches, then the index that finds them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import PelError
from ..folder.manifest import read_manifest
from ..folder.manifest_form import all_file_names, mention_entries
from ..folder.transaction import Transaction, folder_transaction
from ..knowledge_base import KnowledgeBase
from ..vectors.faiss_library import write_index
from ..vectors.fast_scan import FAST_SCAN_KIND, built_fast_scan, representative_rows
from ..vectors.inverted_file import (
    INDEX_MEMORY,
    built_inverted_file,
    fitting_kind,
    mapped_inverted_file,
)
from ..vectors.matrix import DTYPES, ArrayWriter, MatrixWriter, VectorMatrix, mapped
from ..vectors.recall import chosen_oversampling, chosen_probes
from ..vectors.stored_index import opened_rows

logger = logging.getLogger(__name__)

# The most rows that are searched exactly, for each choice of ``index``.
EXACT_ROWS = {"auto": 50_000, "exact": inf, "approximate": 0}
FLOAT32_ROWS = {"auto": 300_000, "exact": inf, "approximate": 0}  # more rows become float16
SCANNED_ROWS = 2_000_000  # up to this many rows a fast scan of all codes; above, an inverted file

Batch = tuple[np.ndarray, np.ndarray]
Batches = Iterable[Batch]


# From a transaction, the manifest until now and its new "vectors" to its new "mentions".
EmbedMentions = Callable[[Transaction, dict[str, Any], dict[str, Any]], dict[str, Any]]


def write_vectors(
    path: str | Path,
    batches: Batches,
    *,
    dim: int,
    fingerprint: str,
    row_kind: str,
    dtype: str = "auto",
    index: str = "auto",
    memory: int = INDEX_MEMORY,
    mentions: EmbedMentions | None = None,
) -> KnowledgeBase:
    """Writes the vectors of a KB, replacing those it has, and opens the KB.

    Until the very end, and after any error or interruption, the KB stays as it was.

    Args:
        path: The KB folder.
        batches: Pairs of vectors, float32 [b, dim], and the number of each vector's entity [b]. The
            numbers must ascend over all batches. Search compares by inner product, so give vectors
            of length 1 to search by cosine.
        dim: The length of the vectors.
        fingerprint: The fingerprint of the encoder, for the manifest.
        row_kind: What a row stands for, for the manifest.
        dtype: The type of the stored vectors: "float32", "float16", "int8" or "auto". "auto" is
            float16 for many rows and for an "approximate" index, and float32 otherwise.
        index: How they are searched: "exact", "approximate" or "auto". "auto" is approximate for
            many rows. An approximate index is a fast scan of short codes, or for very many rows an
            inverted file.
        memory: The bytes that an inverted file may take.
        mentions: Makes new vectors of the mentions that the KB has learnt.

    Raises:
        PelError: There is no KB, it has learnt mentions that get no vectors, it changed since it was built or compacted, the vectors do not fit
            it, or the disk is full.
    """
    folder = Path(path).absolute()
    read_manifest(folder)  # if there is no KB, no folder is made
    with folder_transaction(folder) as transaction:
        manifest = read_manifest(folder)
        segment = only_segment(folder, manifest)
        entry = write_segment_vectors(
            transaction, batches, segment["count"], dim, dtype=dtype, index=index, memory=memory
        )
        vectors = {
            "dim": dim,
            "dtype": mapped(folder / entry["file"]).dtype.name,
            "index": index,
            "row_kind": row_kind,
            "fingerprint": fingerprint,
            "rows": entry["rows"],
        }
        if mention_entries(manifest):
            manifest["mentions"] = _new_mentions(transaction, manifest, vectors, mentions)
        commit_vectors(transaction, manifest, entry, vectors)
    return KnowledgeBase.open(folder)


def _new_mentions(
    transaction: Transaction,
    manifest: dict[str, Any],
    vectors: dict[str, Any],
    mentions: EmbedMentions | None,
) -> dict[str, Any]:
    if mentions is None:
        raise PelError(
            f"{transaction.folder}: has learnt mentions, which need new vectors too",
            "run kb embed with a pipeline, or kb forget",
        )
    return mentions(transaction, manifest, vectors)


def commit_vectors(
    transaction: Transaction,
    manifest: dict[str, Any],
    entry: dict[str, Any],
    vectors: dict[str, Any],
) -> None:
    """Commits new vectors of a KB of one segment.

    Args:
        transaction: The transaction.
        manifest: The manifest until now.
        entry: What the manifest says of the segment's vectors.
        vectors: What the manifest says of the vectors of the whole KB.
    """
    (segment,) = manifest["segments"]
    new = {**manifest, "segments": [{**segment, "vectors": entry}], "vectors": vectors}
    known = {**manifest["files"], **transaction.files}
    files = {name: known[name] for name in sorted(all_file_names(new))}
    transaction.commit({**new, "files": files})


def write_segment_vectors(
    transaction: Transaction,
    batches: Batches,
    n_entities: int,
    dim: int,
    *,
    dtype: str = "auto",
    index: str = "auto",
    memory: int = INDEX_MEMORY,
    alike: float | None = None,
    projection_file: str | None = None,
) -> dict[str, Any]:
    """Publishes the vectors of a segment.

    Args:
        transaction: The transaction.
        batches: As for ``write_vectors``, with the numbers that entities have in the segment.
        n_entities: The number of entities of the segment.
        dim: The length of the vectors.
        dtype: As for ``write_vectors``.
        index: As for ``write_vectors``.
        memory: As for ``write_vectors``.
        alike: Rows of an entity with this cosine or more share a code
            (``fast_scan.representative_rows``); None for a code for each row.
        projection_file: The file of the ``Projection`` that made the vectors, if there is one.

    Returns:
        What the manifest says of the vectors.

    Raises:
        PelError: The vectors do not fit, or a setting is unknown.
    """
    if dtype not in ("auto", *DTYPES):
        raise PelError(f"unknown dtype {dtype!r}", f"choose auto, {', '.join(DTYPES)}")
    if index not in EXACT_ROWS:
        raise PelError(f"unknown index {index!r}", f"choose {', '.join(EXACT_ROWS)}")
    files = _Files(transaction, dim, dtype, FLOAT32_ROWS[index])
    for vectors, numbers in _checked(batches, n_entities, dim):
        files.append(vectors, numbers)
    files.close()
    entry = {
        **files.published(),
        "basis_file": projection_file,
        "rows": files.matrix.n_rows,
        "index": None,
    }
    matrix, row_entities = opened_rows(transaction.folder, entry)
    if not len(row_entities):
        raise PelError("no vectors to write", "embed at least one entity")
    reached = np.zeros(n_entities, dtype=bool)
    reached[row_entities] = True
    if not reached.all():
        logger.warning("%d of %d entities have no vector", (~reached).sum(), n_entities)
    if len(row_entities) > EXACT_ROWS[index]:
        entry["index"] = _published_index(transaction, matrix, row_entities, memory, alike)
    return entry


def _published_index(
    transaction: Transaction,
    matrix: VectorMatrix,
    row_entities: np.ndarray,
    memory: int,
    alike: float | None,
) -> dict[str, Any]:
    """Publishes an approximate index; returns what the manifest says of it."""
    if len(matrix) <= SCANNED_ROWS:
        published = _published_codes(transaction, matrix, row_entities, alike)
    else:
        published = _published_lists(transaction, matrix, row_entities, memory)
    return {"memory": memory, "alike": alike, **published}


def _published_codes(
    transaction: Transaction,
    matrix: VectorMatrix,
    row_entities: np.ndarray,
    alike: float | None,
) -> dict[str, Any]:
    coded = None if alike is None else representative_rows(matrix, row_entities, alike)
    n_coded = len(matrix if coded is None else coded)
    logger.info("building the index of %d vectors", n_coded)
    codes = built_fast_scan(matrix, coded)
    oversampling, recall = chosen_oversampling(matrix, row_entities, codes)
    logger.info("%s, %d rows found for an entity: recall %s", FAST_SCAN_KIND, oversampling, recall)
    path = transaction.temporary(".faiss")
    write_index(codes, path)
    name = transaction.publish(path, "index")
    return {
        "file": name,
        "kind": FAST_SCAN_KIND,
        "codes": n_coded,
        "oversampling": oversampling,
        "recall": recall,
    }


def _published_lists(
    transaction: Transaction, matrix: VectorMatrix, row_entities: np.ndarray, memory: int
) -> dict[str, Any]:
    kind = fitting_kind(len(matrix), matrix.dim, memory)
    logger.info("building the index of %d vectors", len(matrix))
    path = transaction.temporary(".faiss")
    write_index(built_inverted_file(matrix, kind), path)
    probes, recall = chosen_probes(matrix, row_entities, mapped_inverted_file(path))
    logger.info("%s, %d lists a search: recall %s", kind, probes, recall)
    name = transaction.publish(path, "index")
    return {"file": name, "kind": kind, "probes": probes, "recall": recall}


def only_segment(folder: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """The only segment of a KB; PelError if the KB was changed since it was built or compacted."""
    segment, *others = manifest["segments"]
    if others or segment["removed"] is not None:
        raise PelError(
            f"{folder}: was changed since it was built",
            f"first run: python -m spacy pel kb compact {folder}",
        )
    return segment


def _checked(batches: Batches, n_entities: int, dim: int) -> Iterator[Batch]:
    """The batches as arrays, checked to fit the entities; PelError if they do not."""
    last = 0
    for vectors, numbers in batches:
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        numbers = np.asarray(numbers)
        if vectors.shape != (len(numbers), dim):
            raise PelError(
                f"vectors of shape {vectors.shape}, expected {(len(numbers), dim)}",
                f"give one vector of {dim} numbers for each row",
            )
        if not np.isfinite(vectors).all():
            raise PelError("the vectors hold NaN or infinity", "check the weights of the encoder")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < n_entities:
            raise PelError(
                f"entity numbers outside of 0 to {n_entities - 1}", "give numbers of this KB"
            )
        if (np.diff(numbers, prepend=last) < 0).any():
            raise PelError(
                "entity numbers that descend", "give the rows sorted by the number of their entity"
            )
        last = numbers[-1] if len(numbers) else last
        yield vectors, numbers


class _Files:
    """Writes rows, and the entity of each row, to new files."""

    def __init__(self, transaction: Transaction, dim: int, dtype: str, float32_rows: float) -> None:
        """With the dtype "auto", up to ``float32_rows`` rows are float32; more become float16."""
        self._transaction = transaction
        self._dim = dim
        self._switch = float32_rows if dtype == "auto" else inf
        self.matrix = self._new_matrix("float32" if dtype == "auto" else dtype)
        self._numbers_path = transaction.temporary(".npy")
        self._numbers = ArrayWriter(self._numbers_path, "int32")

    def append(self, vectors: np.ndarray, numbers: np.ndarray) -> None:
        """Appends rows."""
        if self.matrix.n_rows + len(numbers) > self._switch:
            self._switch = inf
            self._to_float16()
        self.matrix.append(vectors)
        self._numbers.append(numbers)

    def close(self) -> None:
        """Closes the files."""
        self.matrix.close()
        self._numbers.close()

    def published(self) -> dict[str, str | None]:
        """Publishes the files, which must be closed, and returns their names."""
        publish, scales = self._transaction.publish, self.matrix.scales_path
        return {
            "file": publish(self.matrix.path, "vectors"),
            "scales_file": publish(scales, "scales") if scales else None,
            "rows_file": publish(self._numbers_path, "rows"),
        }

    def _to_float16(self) -> None:
        self.matrix.close()
        path = self.matrix.path
        self.matrix = self._new_matrix("float16")
        for _, block in VectorMatrix.opened(path).blocks():
            self.matrix.append(block)
        path.unlink()

    def _new_matrix(self, dtype: str) -> MatrixWriter:
        scales = self._transaction.temporary(".npy") if dtype == "int8" else None
        return MatrixWriter(self._transaction.temporary(".npy"), scales, self._dim, dtype)
