"""All or nothing, with files of any content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.folder.manifest import read_manifest, sound_manifest
from spacy_pel.kb.folder.transaction import Transaction, folder_transaction

from ..examples import contents

fcntl = pytest.importorskip("fcntl")


def publish(changes: Transaction, text: str, stem: str = "entities") -> str:
    path = changes.temporary(".sqlite")
    path.write_text(text)
    return changes.publish(path, stem)


def manifest(changes: Transaction) -> dict:
    """The manifest of a KB without segments."""
    counted = {
        "counts": {"entities": 0},
        "sources": ["été \udcff"],
        "segments": [],
        "vectors": None,
    }
    return {"files": changes.files, **counted}


def write(folder: Path, *texts: str) -> list[str]:
    """Commits files of these texts; returns their names."""
    with folder_transaction(folder) as changes:
        names = [publish(changes, text) for text in texts]
        changes.commit(manifest(changes))
    return names


def test_a_commit_replaces_what_was_there(tmp_path: Path) -> None:
    old = write(tmp_path / "deep" / "kb", "a", "b")
    assert set(contents(tmp_path / "deep" / "kb")) == {"manifest.json", *old}
    new = write(tmp_path / "deep" / "kb", "b", "c")
    assert new[0] == old[1]
    assert set(contents(tmp_path / "deep" / "kb")) == {"manifest.json", *new}
    assert read_manifest(tmp_path / "deep" / "kb")["sources"] == ["été \udcff"]


def test_without_a_commit_nothing_changes(tmp_path: Path) -> None:
    write(tmp_path / "kb", "a")
    before = contents(tmp_path / "kb")
    with folder_transaction(tmp_path / "kb") as changes:
        publish(changes, "b")
        changes.temporary(".npy").write_text("half")
    assert contents(tmp_path / "kb") == before
    with pytest.raises(ZeroDivisionError), folder_transaction(tmp_path / "new" / "kb") as changes:
        publish(changes, str(1 / 0))
    assert not (tmp_path / "new").exists()


def test_files_of_readers_outlive_a_commit(tmp_path: Path) -> None:
    [old] = write(tmp_path, "a")
    with open(tmp_path / old) as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        [new] = write(tmp_path, "b")
        assert set(contents(tmp_path)) == {"manifest.json", old, new}
        write(tmp_path, "a")  # as it was: the reader's own file, not one beside it
        [new] = write(tmp_path, "b")
        assert (tmp_path / old).read_text() == "a"
    write(tmp_path, "b")
    assert set(contents(tmp_path)) == {"manifest.json", new}


def test_a_damaged_file_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    [name] = write(tmp_path, "a")
    (tmp_path / name).write_text("?")
    write(tmp_path, "a")
    assert (tmp_path / name).read_text() == "a"


@pytest.mark.parametrize(
    "name",
    [".tmp-1.sqlite", ".tmp-2.sqlite-journal", ".lock"]
    + [f"{stem}-0123456789abcdef.npy" for stem in ("removed", "scales", "rows", "vectors")]
    + ["index-0123456789abcdef.faiss", "entities-0123456789abcdef.sqlite"],
)
def test_what_a_killed_writer_left_is_swept(tmp_path: Path, name: str) -> None:
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / name).write_text("half")
    [kept] = write(tmp_path / "kb", "a")
    assert set(contents(tmp_path / "kb")) == {"manifest.json", kept}


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "a")
    others = {"README", "entities-new.sqlite", "entities-0123456789abcdef.sqlite.bak"}
    for name in others:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".partial-0123").mkdir()
    [name] = write(tmp_path, "b")
    assert {path.name for path in tmp_path.iterdir()} == {
        *others, "manifest.json", ".partial-0123", name
    }  # fmt: skip


def test_a_second_writer_is_refused_and_disturbs_nothing(tmp_path: Path) -> None:
    with folder_transaction(tmp_path / "kb") as changes:
        name = publish(changes, "a")
        with pytest.raises(PelError, match="is writing to it"), folder_transaction(tmp_path / "kb"):
            pass
        changes.commit(manifest(changes))
    assert set(contents(tmp_path / "kb")) == {"manifest.json", name}


def test_every_flipped_byte_of_a_manifest_is_found(tmp_path: Path) -> None:
    write(tmp_path, "a")
    path = tmp_path / "manifest.json"
    text = path.read_bytes()
    sound_manifest(tmp_path)
    for place in range(len(text)):
        flipped = text[place] ^ 1 << place % 8
        path.write_bytes(text[:place] + bytes([flipped]) + text[place + 1 :])
        with pytest.raises(PelError):
            sound_manifest(tmp_path)


def test_a_manifest_written_by_hand_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a")
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "sources": []}))
    with pytest.raises(PelError, match="does not agree with its checksum; copy the folder again"):
        read_manifest(tmp_path)
