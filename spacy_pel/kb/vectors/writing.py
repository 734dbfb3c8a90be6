"""Writes the vectors of a KB: first the rows, in batches, then the index that finds them."""

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
from .building import write_index
from .matrix import DTYPES, Projection, VectorMatrix, coded, written_matrix

logger = logging.getLogger(__name__)

# The most rows that are searched exactly, for each choice of ``index``.
EXACT_ROWS = {"auto": 50_000, "exact": inf, "approximate": 0}
FLOAT32_ROWS = {"auto": 300_000, "exact": inf, "approximate": 0}  # more rows become float16
_ENCODED = 64  # passages given to the encoder at a time

Batches = Iterable[tuple[np.ndarray, np.ndarray]]


class Encoder(Protocol):
    """Encodes entities as the KB's others were encoded, and mentions as a linker reads them."""

    fingerprint: str  # of what encodes entities, as the KB has it
    index_unit: str  # as the KB has it
    mention_fingerprint: str  # of all that decides the vectors of mentions

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """Vectors, float32 [n, dim], and the place of each row's entity in ``entities``, int64 [n]."""

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        """The vectors of all mentions of the passages, in their order: float32 [n, dim]."""


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
    """Writes the vectors of a KB, and opens it. After any error or interruption, it stays as it was.

    Args:
        batches: Pairs of vectors, float32 [b, dim], and the number of each vector's entity [b], in the
            order of ``KnowledgeBase.numbers_by_id``. Give vectors of length 1 to search by cosine.
        dim: The length of the vectors.
        fingerprint: Their encoder.
        index_unit: What a row stands for.
        dtype: The type of the stored vectors: "float32", "float16", "int8" or "auto", which is
            float16 for many rows and for an "approximate" index, and float32 otherwise.
        index: How they are searched: "exact", "approximate" or "auto", which is approximate for
            many rows: by short codes, or for very many rows by lists.
        stored_dim: The length of the vectors as they are stored; None: their own. If it is less, they
            are projected onto the principal axes of all, and so are the queries of each search.
        alike: Rows of one entity with this cosine or more share a short code. There are fewer codes
            then, and some of the last candidates differ. None: each row has its own.
        mentions: Makes new vectors of the mentions that the KB has learnt.

    Raises:
        PelError: There is no KB, vectors or settings do not fit, learnt mentions would get no vectors,
            or the disk is full.
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
        _file(change, batches, about, mentions)
    return KnowledgeBase.open(path)


def insert_rows(change: Writing, batches: Batches, projection: Projection | None) -> int:
    """Writes rows into the database of a KB, where they are searched exactly; returns their number."""
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


def _file(
    change: Writing, batches: Batches, about: dict[str, Any], mentions: Encoder | None
) -> None:
    """Writes a file of all vectors of a KB with its index. ``about`` goes to the KB's settings."""
    dim, dtype, index = about["dim"], about["dtype"], about["index"]
    with KnowledgeBase.open(change.folder) as kb:
        by_id, n_records = kb.numbers_by_id(), kb.settings["next_number"]
        ranked = kb.settings["in_order"] < n_records
        ranks = np.full(n_records + 1, -1, dtype=np.int64)  # the last is that of no number
        ranks[by_id] = np.arange(len(by_id)) if ranked else by_id
        learnt = kb.mentions.passages() if mentions else []
    each = [np.empty(0, np.int64)]

    def rows() -> Iterator[np.ndarray]:
        for vectors, numbers in _checked(batches, dim):
            each.append(numbers)
            yield vectors

    stored = whole = written_matrix(temporary_path(change.folder, ".npy"), rows(), dim, "float32")
    numbers = np.concatenate(each)
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
    projection, blocks = None, (block for _, block in whole.blocks())
    if about["stored_dim"] < dim:
        projection, about["kept"] = Projection.principal(whole, about["stored_dim"])
        blocks = map(projection.projected_rows, blocks)
    if projection or dtype != "float32":
        path = temporary_path(change.folder, ".npy")
        stored = written_matrix(path, blocks, about["stored_dim"], dtype)
    file = published(change.folder, stored.path, "vectors")
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
    made = encoded_mentions(mentions, (passage for passage, _ in learnt))
    made = list(zip(made, (id for _, ids in learnt for id in ids)))
    axes = None if projection is None else projection.axes
    columns = [(owners, "<i4"), (by_id if ranked else None, "<i4"), (stored.scales, "<f4")]
    columns.append((axes, "<f4"))
    blobs = [None if value is None else value.astype(kind).tobytes() for value, kind in columns]
    old = change.settings
    kept = (file["name"], (old["vectors"] or new)["file"]["name"])
    with change.transaction() as number:
        execute = change.database.execute
        # The rows before stay for readers who have them open; those before these go. If the file is
        # the same as before, what was added since is in it.
        execute("DELETE FROM row WHERE vectors NOT IN (?, ?)", kept)
        execute("DELETE FROM vectors WHERE name NOT IN (?, ?)", kept)
        execute("DELETE FROM row WHERE vectors = ?", kept[:1])
        execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?)", (file["name"], *blobs))
        change.database.executemany("UPDATE mention SET vector = ? WHERE id = ?", made)
        if mentions and old["mentions"]:
            fingerprint = mentions.mention_fingerprint
            read = {**old["mentions"], "fingerprint": fingerprint, "changed": number}
            change.note(read, mentions=read)
        change.note(new, vectors=new)
    write_checksums(change.folder)


def encoded_mentions(encoder: Encoder, passages: Iterable[MentionPassage]) -> Iterator[bytes]:
    """The vector of each mention, as a KB stores it."""
    stream = iter(passages)
    while block := list(islice(stream, _ENCODED)):
        for vector in encoder.mention_vectors(block):
            yield vector.astype("<f4").tobytes()


def _checked(batches: Batches, dim: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The batches as arrays; PelError if they are not finite vectors of this length."""
    for vectors, numbers in batches:
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if vectors.shape != (len(numbers), dim):
            problem = f"vectors of shape {vectors.shape}, expected {(len(numbers), dim)}"
            raise PelError(problem, f"give one vector of {dim} numbers for each row")
        if not np.isfinite(vectors).all():
            raise PelError("the vectors hold NaN or infinity", "check the weights of the encoder")
        yield vectors, np.asarray(numbers, dtype=np.int64)
