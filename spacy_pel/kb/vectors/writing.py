"""Write the vectors of a KB: the rows, in batches, then their index."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...errors import PelError
from ..knowledge_base import KnowledgeBase
from ..mentions import MentionPassage
from ..records.entity import Entity
from ..transaction import Writing, published, temporary_path, write_checksums, writing
from .index_building import write_index
from .matrix import DTYPES, Projection, VectorMatrix, coded, written_matrix

logger = logging.getLogger(__name__)

# By ``index``: the most rows that are searched exactly, and the most that are stored as float32.
EXACT_ROWS = {"auto": 50_000, "exact": inf, "approximate": 0}
FLOAT32_ROWS = {"auto": 300_000, "exact": inf, "approximate": 0}
_BATCH_SIZE = 64  # passages encoded at a time

Batches = Iterable[tuple[np.ndarray, np.ndarray]]


class Encoder(Protocol):
    """An encoder of entities, as those of the KB were encoded, and of mentions, as a linker reads them."""

    index_unit: str  # stored in the KB

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the entity encoder, stored in the KB."""

    @property
    def mention_fingerprint(self) -> str:
        """The fingerprint of everything that determines the vectors of mentions."""

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors, float32 [n, dim], and the index of each one's entity in ``entities``, int64 [n]."""

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        """Return the vectors of all mentions of the passages in order: float32 [n, dim]."""


def write_vectors(
    path: str | Path,
    batches: Batches,
    *,
    dim: int,
    fingerprint: str,
    index_unit: str,
    dtype: str = "auto",
    index: str = "auto",
    stored_dim: int | None = None,
    alike: float | None = None,
    mentions: Encoder | None = None,
) -> KnowledgeBase:
    """Write the vectors of a KB, and open the KB. An error or an interruption leaves it as it was.

    Args:
        path: The folder of the KB.
        batches: Pairs of vectors, float32 [b, dim], and the entity number of each vector [b], in the order
            of ``KnowledgeBase.numbers_by_id``. Vectors of length 1 are searched by cosine.
        dim: The length of the vectors.
        fingerprint: The fingerprint of their encoder.
        index_unit: What a row represents.
        dtype: The type of the stored vectors: "float32", "float16", "int8" or "auto", which is float16 for
            many rows and for an "approximate" index, and float32 otherwise.
        index: The kind of search: "exact", "approximate" (by short codes, or by lists for very many rows) or
            "auto", which is approximate for many rows.
        stored_dim: The length of the stored vectors; None: ``dim``. If it is less, vectors and queries are
            projected onto the principal axes.
        alike: Rows of one entity with at least this cosine share a code. This saves memory, and changes
            some of the last candidates. None: each row has its own code.
        mentions: The encoder of the mentions that the KB has learnt.

    Raises:
        PelError: There is no KB, vectors or settings do not fit, learnt mentions would have no vectors, or
            the disk is full.
    """
    if dtype not in ("auto", *DTYPES):
        raise PelError(f"unknown dtype {dtype!r}", f"choose auto, {', '.join(DTYPES)}")
    if index not in EXACT_ROWS:
        raise PelError(f"unknown index {index!r}", f"choose {', '.join(EXACT_ROWS)}")
    if stored_dim is not None and not 1 <= stored_dim <= dim:
        remedy = f"choose from 1 to {dim} of them, not {stored_dim}"
        raise PelError(f"{path}: its vectors have {dim} numbers", remedy)
    if alike is not None and not 0 < alike < 1:
        raise PelError(f"--alike {alike} is not between 0 and 1", "choose a cosine such as 0.95")
    with writing(path) as change:
        if change.settings["mentions"] and mentions is None:
            problem = f"{change.folder}: has learnt mentions, which need new vectors too"
            raise PelError(problem, "run kb embed with a pipeline, or kb forget")
        about = {"dim": dim, "index_unit": index_unit, "fingerprint": fingerprint, "alike": alike}
        about |= {"dtype": dtype, "index": index, "stored_dim": stored_dim or dim}
        _write(change, batches, about, mentions)
    return KnowledgeBase.open(path)


def insert_rows(change: Writing, batches: Batches, projection: Projection | None) -> int:
    """Write rows into the database of a KB, to be searched exactly; return their number."""
    vectors, total = change.settings["vectors"], 0
    insert = "INSERT INTO row (vectors, number, vector) VALUES (?, ?, ?)"
    for rows, numbers in _checked(batches, vectors["dim"]):
        if projection is not None:
            rows = projection.projected_rows(rows)
        stored = VectorMatrix(*coded(rows, vectors["dtype"])).take(np.arange(len(rows)))
        name, pairs = vectors["file"]["name"], zip(numbers.tolist(), stored.astype("<f4"))
        change.database.executemany(insert, [(name, n, row.tobytes()) for n, row in pairs])
        total += len(rows)
    return total


def _write(
    change: Writing, batches: Batches, about: dict[str, Any], mentions: Encoder | None
) -> None:
    """Write a file of all vectors of a KB with its index. ``about`` becomes part of the settings."""
    dim, dtype, index = about["dim"], about["dtype"], about["index"]
    with KnowledgeBase.open(change.folder) as kb:
        by_id, n_records = kb.numbers_by_id(), kb.settings["next_number"]
        ranked = kb.settings["in_order"] < n_records
        ranks = np.full(
            n_records + 1, -1, dtype=np.int64
        )  # the last one is that of unknown numbers
        ranks[by_id] = np.arange(len(by_id)) if ranked else by_id
        learnt = kb.mentions.passages() if mentions else []
    number_batches = [np.empty(0, np.int64)]

    def rows() -> Iterator[np.ndarray]:
        for vectors, numbers in _checked(batches, dim):
            number_batches.append(numbers)
            yield vectors

    path = temporary_path(change.folder, ".npy")
    stored = original = written_matrix(path, rows(), dim, "float32")
    numbers = np.concatenate(number_batches)
    owners = ranks[numbers.clip(-1, n_records)].astype(np.int32)
    if not len(owners):
        raise PelError("no vectors to write", "embed at least one entity")
    if (owners < 0).any():
        problem = f"no entity has the number {numbers[owners < 0][0]}"
        raise PelError(problem, "give numbers of this KB")
    if (owners[1:] < owners[:-1]).any():
        remedy = "give the rows sorted by the id of their entity"
        raise PelError("entity numbers that descend", remedy)
    if missing := len(by_id) - len(np.unique(owners)):
        logger.warning("%d of %d entities have no vector", missing, len(by_id))
    if dtype == "auto":
        dtype = "float32" if len(owners) <= FLOAT32_ROWS[index] else "float16"
    projection = None
    blocks: Iterable[np.ndarray] = (block for _, block in original.blocks())
    if about["stored_dim"] < dim:
        projection, about["kept"] = Projection.principal(original, about["stored_dim"])
        blocks = map(projection.projected_rows, blocks)
    if projection or dtype != "float32":
        path = temporary_path(change.folder, ".npy")
        stored = written_matrix(path, blocks, about["stored_dim"], dtype)
    file = published(change.folder, path, "vectors")
    matrix = VectorMatrix.opened(change.folder / file["name"], stored.scales)
    found_by = None
    if len(owners) > EXACT_ROWS[index]:
        logger.info("building the index of %d vectors", len(owners))
        path = temporary_path(change.folder, ".faiss")
        found_by = write_index(path, matrix, owners, about["alike"])
        logger.info("%s", found_by)
        found_by["file"] = published(change.folder, path, "index")
    counts = {"stored_rows": len(owners), "rows": len(owners)}
    new = {**about, **counts, "file": file, "dtype": dtype, "found_by": found_by}
    mention_vectors: list[tuple[bytes, int]] = []
    if mentions:
        encoded = encoded_mentions(mentions, (passage for passage, _ in learnt))
        mention_vectors = list(zip(encoded, (id for _, ids in learnt for id in ids)))
    columns = (
        (owners, "<i4"),
        (by_id if ranked else None, "<i4"),
        (stored.scales, "<f4"),
        (projection.axes if projection else None, "<f4"),
    )
    blobs = [None if value is None else value.astype(kind).tobytes() for value, kind in columns]
    old = change.settings
    kept = (file["name"], (old["vectors"] or new)["file"]["name"])
    with change.transaction() as number:
        execute = change.database.execute
        # The previous rows stay for readers that have them open; older ones are deleted. If the file is the
        # same as before, it contains the rows that were added since.
        execute("DELETE FROM row WHERE vectors NOT IN (?, ?)", kept)
        execute("DELETE FROM vectors WHERE name NOT IN (?, ?)", kept)
        execute("DELETE FROM row WHERE vectors = ?", kept[:1])
        execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?)", (file["name"], *blobs))
        change.database.executemany("UPDATE mention SET vector = ? WHERE id = ?", mention_vectors)
        if mentions and old["mentions"]:
            fingerprint = mentions.mention_fingerprint
            read = {**old["mentions"], "fingerprint": fingerprint, "changed": number}
            change.note(read, mentions=read)
        change.note(new, vectors=new)
    write_checksums(change.folder)


def encoded_mentions(encoder: Encoder, passages: Iterable[MentionPassage]) -> Iterator[bytes]:
    """Yield the vector of each mention, as a KB stores it."""
    stream = iter(passages)
    while block := list(islice(stream, _BATCH_SIZE)):
        for vector in encoder.mention_vectors(block):
            yield vector.astype("<f4").tobytes()


def _checked(batches: Batches, dim: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the batches as arrays; PelError unless they are finite vectors of this length."""
    for vectors, numbers in batches:
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if vectors.shape != (len(numbers), dim):
            problem = f"vectors of shape {vectors.shape}, expected {(len(numbers), dim)}"
            raise PelError(problem, f"give one vector of {dim} numbers for each row")
        if not np.isfinite(vectors).all():
            raise PelError("the vectors hold NaN or infinity", "check the weights of the encoder")
        yield vectors, np.asarray(numbers, dtype=np.int64)
