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
    facts = {"text": 'é\n"', "numbers": [1, 2.5, None], "nested": {"big": 2**100}}
    save_checkpoint(tmp_path / "checkpoint", Checkpoint(tensors, facts))
    loaded = load_checkpoint(tmp_path / "checkpoint")
    assert loaded.facts == facts and loaded.tensors.keys() == tensors.keys()
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
    with pytest.raises(PelError, match="is not a checkpoint, or it is damaged"):
        load_checkpoint(tmp_path / "checkpoint")


def test_damage_anywhere_is_an_error(tmp_path: Path) -> None:
    """Any byte but those of blanks: of the header, of the facts, and of each tensor."""
    path = tmp_path / "checkpoint"
    tensors = {"a": torch.arange(4), "b": torch.tensor(0.1), "c": torch.ones(2, 3).bool()}
    save_checkpoint(path, Checkpoint(tensors, {"step": 1}))
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            loaded = load_checkpoint(path)
        except PelError as error:
            assert "is damaged" in str(error) and error.remedy.startswith("remove it")
            continue
        assert whole[place : place + 1] == b" " and loaded.facts == {"step": 1}
    path.write_bytes(whole)
    assert load_checkpoint(path).facts == {"step": 1}


def draw() -> list[float]:
    random.gauss(0, 1), np.random.standard_normal()  # each keeps a second number for later
    drawn = [random.random(), random.gauss(0, 1), np.random.random(), np.random.standard_normal()]
    return [*drawn, *torch.rand(2).tolist()]


def test_random_numbers_go_on_where_they_were(tmp_path: Path) -> None:
    draw()
    states = random_states()
    save_checkpoint(tmp_path / "states", states)
    first = draw()
    assert draw() != first
    set_random_states(load_checkpoint(tmp_path / "states"))
    assert draw() == first


def test_what_was_saved_without_a_gpu_goes_on_with_one(monkeypatch) -> None:
    states = random_states()
    first = draw()
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

    def rest(batches: ResumableBatches) -> list:
        return [(random.random(), *batch) for batch in batches]

    batches = begin()
    drawn = [(random.random(), *next(batches)) for _ in range(done)]
    state, states = random.getstate(), list(batches.random_states)
    expected = rest(batches)
    assert len(expected) == 16 - done and batches.first_of_epochs == [0, 4, 8, 12]

    resumed = begin()
    assert resumed.skip(done, states) == drawn[0][2]
    random.setstate(state)
    assert rest(resumed) == expected
