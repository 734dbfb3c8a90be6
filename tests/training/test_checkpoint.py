from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from spacy_pel.errors import PelError
from spacy_pel.training.checkpoint import (
    Checkpoint,
    check_same_config,
    load_checkpoint,
    random_states,
    save_checkpoint,
    set_random_states,
)
from spacy_pel.training.loop import ResumableBatches


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


def draw() -> list[float]:
    random.gauss(0, 1), np.random.standard_normal()  # each keeps a second number for later
    drawn = [random.random(), random.gauss(0, 1), np.random.random(), np.random.standard_normal()]
    return [*drawn, *torch.rand(2).tolist()]


def test_random_numbers_go_on_where_they_were(tmp_path: Path, monkeypatch) -> None:
    draw()
    save_checkpoint(tmp_path / "states", random_states())
    first = draw()
    assert draw() != first
    states = load_checkpoint(tmp_path / "states")
    set_random_states(states)
    assert draw() == first
    # What was saved without a GPU goes on with one.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    set_random_states(states._replace(tensors={"torch": states.tensors["torch"]}))
    assert draw() == first


def test_a_config_that_changed_is_named_by_its_settings() -> None:
    before = "[training]\nmax_steps = 10\nseed = 0\n\n[training.batcher]\nsize = 2\n"
    checkpoint = Checkpoint({}, {"config": before})
    reordered = before.replace("max_steps = 10\nseed = 0", "seed = 0\nmax_steps = 10")
    check_same_config(checkpoint, reordered)
    with pytest.raises(PelError, match="in training.batcher.size, training.patience; give the"):
        changed = before.replace("= 2", "= 3").replace("seed", "patience = 0\nseed")
        check_same_config(checkpoint, changed)


def shuffled_batches():
    """As spaCy's, by a generator that others use as well."""
    items = list(range(10))
    for epoch in range(4):
        random.shuffle(items)
        yield from ((epoch, items[i : i + 3]) for i in range(0, 10, 3))


@pytest.mark.parametrize("done", [1, 3, 4, 5, 11])
def test_batches_are_found_again_though_others_draw_as_well(done: int) -> None:
    def begin() -> ResumableBatches:
        random.seed(5)
        return ResumableBatches(shuffled_batches())

    batches = begin()
    drawn = [(random.random(), *next(batches)) for _ in range(done)]
    state, states = random.getstate(), list(batches.random_states)
    expected = [(random.random(), *batch) for batch in batches]
    assert len(expected) == 16 - done and batches.first_of_epochs == [0, 4, 8, 12]

    resumed = begin()
    assert resumed.skip(done, states) == drawn[0][2]
    random.setstate(state)
    assert [(random.random(), *batch) for batch in resumed] == expected
