"""Writing a KB folder: its records, then its vectors. Each is one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import PelError
from .entity import Entity
from .index import new_flat_index, write_index
from .knowledge_base import KnowledgeBase
from .manifest import read_manifest
from .staging import write_records
from .transaction import Transaction, transaction

logger = logging.getLogger(__name__)


def build_kb(
    entities: Iterable[Entity],
    path: str | Path,
    *,
    sources: Sequence[str] = (),
    progress: Callable[[Iterable[Entity]], Iterable[Entity]] | None = None,
) -> KnowledgeBase:
    """Writes entities, in any order, to a KB folder and opens it.

    A KB that is there is replaced at the very end, and its vectors, which belong to its entities,
    go with it; until then, and after any error or interruption, it stays as it was.
    sources: what the entities come from, for the manifest. progress: wraps the entities, as tqdm.
    Raises PelError if the folder holds something else, for bad entities, and for a full disk.
    """
    from .. import __version__  # here, since the package imports this room before it is defined

    folder = Path(path).absolute()
    with transaction(folder) as changes:
        records = changes.temporary(".sqlite")
        scratch = changes.temporary(".sqlite")
        counts = write_records(records, scratch, progress(entities) if progress else entities)
        if not counts["entities"]:
            source = ", ".join(sources) or folder
            raise PelError(f"{source}: no entities; check that it is the right source")
        name = changes.publish(records, "entities")
        changes.commit(
            {
                "created_by": f"spacy-pel {__version__}",
                "sources": list(sources),
                "counts": counts,
                "files": changes.files,
                "entities": {"file": name},
                "vectors": None,
            }
        )
    return KnowledgeBase.open(folder)


def write_vectors(
    path: str | Path,
    batches: Iterable[tuple[np.ndarray, np.ndarray]],
    *,
    dim: int,
    fingerprint: str,
    row_kind: str,
) -> KnowledgeBase:
    """Writes the vectors of a KB, in place of those it has, and opens it.

    batches: pairs (float32 [b, dim], entity numbers [b]), row after row. Search is by inner
    product, so give vectors of unit length for cosine. row_kind: what a row stands for, for the
    manifest.
    Until the very end, and after any error or interruption, the KB stays as it was.
    Raises PelError if there is no KB, for vectors that do not fit it, and for a full disk.
    """
    folder = Path(path).absolute()
    manifest = read_manifest(folder)
    with transaction(folder) as changes:
        index, row_entities = _collected(batches, dim, manifest["counts"]["entities"])
        vectors = {
            **_published(changes, index, row_entities),
            "rows": len(row_entities),
            "row_kind": row_kind,
            "dim": dim,
            "fingerprint": fingerprint,
        }
        entities_file = manifest["entities"]["file"]
        if read_manifest(folder)["entities"]["file"] != entities_file:
            raise PelError(f"{folder}: was built again meanwhile; run kb embed again")
        files = {entities_file: manifest["files"][entities_file], **changes.files}
        changes.commit({**manifest, "files": files, "vectors": vectors})
    return KnowledgeBase.open(folder)


def _collected(
    batches: Iterable[tuple[np.ndarray, np.ndarray]], dim: int, n_entities: int
) -> tuple[Any, np.ndarray]:
    """A FAISS index of all batches and the entity of each row, int32 [n_rows]."""
    index = new_flat_index(dim)
    rows: list[np.ndarray] = []
    for vectors, numbers in batches:
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        numbers = np.asarray(numbers)
        if vectors.shape != (len(numbers), dim):
            raise PelError(f"vectors of shape {vectors.shape}, expected ({len(numbers)}, {dim})")
        if not np.isfinite(vectors).all():
            raise PelError("the vectors hold NaN or infinity; check the weights of the encoder")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < n_entities:
            raise PelError(f"entity numbers outside of 0 to {n_entities - 1}; embed this KB's own")
        index.add(vectors)
        rows.append(numbers.astype(np.int32))
    row_entities = np.concatenate(rows) if rows else np.empty(0, dtype=np.int32)
    if not len(row_entities):
        raise PelError("no vectors to write; embed at least one entity")
    unreachable = n_entities - len(np.unique(row_entities))
    if unreachable:
        logger.warning("%d of %d entities have no vector", unreachable, n_entities)
    return index, row_entities


def _published(changes: Transaction, index: Any, row_entities: np.ndarray) -> dict[str, str]:
    vectors_file = changes.temporary(".faiss")
    write_index(index, vectors_file)
    rows_file = changes.temporary(".npy")
    np.save(rows_file, row_entities)
    return {
        "file": changes.publish(vectors_file, "vectors"),
        "rows_file": changes.publish(rows_file, "rows"),
    }
