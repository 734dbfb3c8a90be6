from __future__ import annotations

from pathlib import Path

import pytest
from safetensors import SafetensorError

from spacy_pel.errors import PelError
from spacy_pel.training.checkpoint import (
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)


def test_one_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(tensors, path: Path, **named) -> None:
        path.write_bytes(b"half of one")
        raise SafetensorError("No space left on device")

    path = tmp_path / "checkpoint"
    save_checkpoint(path, Checkpoint({}, {"step": 1}))
    with pytest.raises(TypeError):
        save_checkpoint(path, Checkpoint({}, {"step": object()}))
    monkeypatch.setattr("spacy_pel.training.checkpoint.save_file", fill_the_disk)
    with pytest.raises(PelError, match=r"cannot be written \(No space .*; make space on its disk"):
        save_checkpoint(path, Checkpoint({}, {"step": 2}))
    assert load_checkpoint(path).facts == {"step": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("data", [b"", b"half of one", b"\x02\x00\x00\x00\x00\x00\x00\x00{}"])
def test_what_is_no_checkpoint_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "checkpoint").write_bytes(data)
    with pytest.raises(PelError, match="is not a checkpoint, or it is damaged.*; remove it"):
        load_checkpoint(tmp_path / "checkpoint")
