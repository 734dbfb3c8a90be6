from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from spacy_pel.errors import PelError
from spacy_pel.training.checkpoint import (
    Checkpoint,
    check_same_config,
    load_checkpoint,
    save_checkpoint,
)


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    tensors = {"a/x": torch.arange(6).reshape(2, 3).T, "a/y": torch.tensor(0.1), "b": torch.ones(0)}
    facts = {"text": 'é\n"', "numbers": [1, 2.5, None], "nested": {"big": 2**100, "a": 1}}
    save_checkpoint(tmp_path / "checkpoint", Checkpoint(tensors, facts))
    loaded = load_checkpoint(tmp_path / "checkpoint")
    assert repr(loaded.facts) == repr(facts) and loaded.tensors.keys() == tensors.keys()
    assert all(torch.equal(loaded.tensors[name], tensors[name]) for name in tensors)


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


def test_a_config_that_changed_is_named_by_its_settings() -> None:
    before = "[training]\nmax_steps = 10\nseed = 0\n\n[training.batcher]\nsize = 2\n"
    checkpoint = Checkpoint({}, {"config": before})
    reordered = before.replace("max_steps = 10\nseed = 0", "seed = 0\nmax_steps = 10")
    check_same_config(checkpoint, reordered)
    with pytest.raises(PelError, match="in training.batcher.size, training.patience; give the"):
        changed = before.replace("= 2", "= 3").replace("seed", "patience = 0\nseed")
        check_same_config(checkpoint, changed)
