"""Chunks of vectors of a KB that is being embedded, each in a file of its own.

Embedding a large KB takes hours. Finished chunks survive a crash, and the next run continues after
them. A chunk is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import PelError

CHUNKS_PREFIX = ".partial-"
# What a damaged file makes numpy and zipfile raise; a RuntimeError speaks of other kinds of zip files.
_DAMAGE = (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile)
_CHUNK = re.compile(r"chunk-(\d{6,})\.npz")


class VectorChunk(NamedTuple):
    """Consecutive rows of vectors.

    Attributes:
        vectors: float32 [n, dim].
        entities: The number of the entity of each row, int64 [n].
        reused: The number of entities whose rows were copied from another KB.
    """

    vectors: np.ndarray
    entities: np.ndarray
    reused: int


class VectorChunks:
    """The finished chunks in a folder, by number. Several processes may write at the same time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def finished(self) -> set[int]:
        """The numbers of the finished chunks."""
        matches = (_CHUNK.fullmatch(path.name) for path in self.folder.iterdir())
        return {int(match[1]) for match in matches if match}

    def write(self, number: int, chunk: VectorChunk) -> None:
        """Stores a finished chunk; PelError if the folder cannot be written to."""
        temporary = self.folder / f"{uuid.uuid4().hex}.tmp"
        try:
            with open(temporary, "xb") as file:
                np.savez(file, **chunk._asdict())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._file(number))
        except OSError as error:
            raise PelError(
                f"{self.folder}: cannot be written ({error.strerror or error})",
                "free some space and run it again: finished chunks are kept",
            ) from error
        finally:
            temporary.unlink(missing_ok=True)

    def read(self, number: int) -> VectorChunk:
        """A finished chunk; PelError if its file is damaged."""
        path = self._file(number)
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return VectorChunk(arrays["vectors"], arrays["entities"], int(arrays["reused"]))
        except _DAMAGE as error:
            raise PelError(f"{path}: is damaged", "delete it and run it again") from error

    def _file(self, number: int) -> Path:
        return self.folder / f"chunk-{number:06d}.npz"


def chunks_folder(kb_folder: Path, decisive: dict[str, Any]) -> Path:
    """The folder for chunks of vectors.

    Args:
        kb_folder: The KB folder.
        decisive: Everything that the vectors depend on, as plain data. Other data give another
            folder.
    """
    text = json.dumps(decisive, sort_keys=True).encode()
    return kb_folder / f"{CHUNKS_PREFIX}{hashlib.blake2b(text, digest_size=8).hexdigest()}"


def opened_chunks(folder: Path) -> VectorChunks:
    """The chunks in a folder, which is made if needed. Other folders of chunks are removed.

    The caller must hold the KB's writer lock, so that no other process makes chunks meanwhile.
    """
    remove_chunks(folder.parent, keep=folder)
    folder.mkdir(exist_ok=True)
    for half_written in folder.glob("*.tmp"):
        half_written.unlink()
    return VectorChunks(folder)


def remove_chunks(kb_folder: Path, keep: Path | None = None) -> None:
    """Removes all chunks from a KB folder, except those in the folder to keep.

    The caller must hold the KB's writer lock.
    """
    for folder in kb_folder.glob(f"{CHUNKS_PREFIX}*"):
        if folder != keep:
            shutil.rmtree(folder)
