from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.folder.vector_chunks import (
    VectorChunk,
    VectorChunks,
    chunks_folder,
    opened_chunks,
    remove_chunks,
)

CHUNK = VectorChunk(np.arange(6, dtype=np.float32).reshape(3, 2), np.array([4, 4, 5]), reused=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return chunks_folder(tmp_path, {"encoder": "abc"})


def assert_same(chunk: VectorChunk, expected: VectorChunk) -> None:
    for array, other in zip(chunk[:2], expected[:2]):
        np.testing.assert_array_equal(array, other)
        assert array.dtype == other.dtype
    assert chunk.reused == expected.reused


def test_chunks_come_back_as_they_were(tmp_path: Path) -> None:
    partial = VectorChunks(tmp_path)
    none = VectorChunk(np.empty((0, 2), dtype=np.float32), np.empty(0, dtype=np.int64), 0)
    partial.write(1_234_567, CHUNK)
    partial.write(0, none)
    assert partial.finished() == {0, 1_234_567}
    assert_same(partial.read(1_234_567), CHUNK)
    assert_same(partial.read(0), none)


def test_each_decision_has_a_folder_of_its_own(tmp_path: Path) -> None:
    decisions = [{"a": 1, "b": None}, {"a": 1, "b": ["x"]}, {"a": 2, "b": None}]
    assert len({chunks_folder(tmp_path, decisive) for decisive in decisions}) == 3
    assert chunks_folder(tmp_path, {"b": None, "a": 1}) == chunks_folder(tmp_path, decisions[0])


def test_finished_chunks_stay_and_those_of_others_go(folder: Path) -> None:
    stale = chunks_folder(folder.parent, {"encoder": "old"})
    assert opened_chunks(stale).finished() == set()
    opened_chunks(stale).write(3, CHUNK)
    (stale / "1.tmp").write_bytes(b"half")
    assert opened_chunks(stale).finished() == {3}
    assert not list(stale.glob("*.tmp"))
    assert opened_chunks(folder).finished() == set()
    assert list(folder.parent.iterdir()) == [folder]
    (folder.parent / "entities").touch()
    remove_chunks(folder.parent)
    assert [path.name for path in folder.parent.iterdir()] == ["entities"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_no_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(PelError, match=r"No space left on device\); free some space"):
        VectorChunks(tmp_path).write(0, CHUNK)
    assert list(tmp_path.iterdir()) == []


def test_damage_is_found(tmp_path: Path) -> None:
    """Whatever is cut off, and a byte of the arrays that is another."""
    partial = VectorChunks(tmp_path)
    partial.write(0, CHUNK)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(PelError, match="is damaged; delete it"):
            partial.read(0)
    place = whole.index(CHUNK.vectors.tobytes()) + 5
    path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
    with pytest.raises(PelError, match="is damaged; delete it"):
        partial.read(0)


def test_a_flipped_bit_raises_no_other_error(tmp_path: Path) -> None:
    chunks = VectorChunks(tmp_path)
    written = VectorChunk(np.ones((3, 4), dtype=np.float32), np.arange(3), 1)
    chunks.write(0, written)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    for place in range(len(content)):
        for bit in range(8):
            path.write_bytes(
                content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
            )
            try:
                found = chunks.read(0)
            except PelError as error:
                assert str(error) == f"{path}: is damaged; delete it and run it again"
            else:
                assert all(map(np.array_equal, found, written))
