"""The training loop against spaCy's own, broken off and taken up again, and what goes wrong."""

from __future__ import annotations

import math
import os
import re
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from spacy.util import load_config

from spacy_pel.corpora import mention_batcher
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, build_kb
from spacy_pel.models.losses import ProxyLoss
from spacy_pel.system import whole_files
from spacy_pel.training.checkpoint import load_checkpoint
from spacy_pel.training.loop import CHECKPOINT, RunProgress, peak_memory_mb
from spacy_pel.training.pool import Pool

from ..pipeline.conftest import PROBLEM, TRAIN
from .problem import contents, timeless, train_by_spacy, training_run, write_config


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kb(PROBLEM, tmp_path_factory.mktemp("loop") / "kb").path


@pytest.fixture
def config(kb: Path, tmp_path: Path) -> Path:
    return write_config(tmp_path, kb)


def state(output: Path) -> tuple[dict[str, bytes], dict[str, torch.Tensor], dict[str, Any]]:
    """All that a run leaves, without the times."""
    checkpoint = load_checkpoint(output / CHECKPOINT)
    checkpoint.facts["progress"].pop("seconds")
    pipelines = {k: v for k, v in contents(output).items() if k.startswith("model-")}
    return pipelines, checkpoint.tensors, checkpoint.facts


def assert_same_state(output: Path, other: Path) -> None:
    (files, tensors, facts), (files_2, tensors_2, facts_2) = state(output), state(other)
    assert files == files_2
    assert tensors.keys() == tensors_2.keys()
    assert all(torch.equal(tensors[name], tensors_2[name]) for name in tensors)
    assert facts == facts_2


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "training.optimizer.@optimizers": "Adam.v1",  # with averages
            "training.max_steps": 0,
            "training.max_epochs": 1,
        },
    ],
)
def test_it_trains_as_spacy_does(kb: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    config = write_config(tmp_path, kb, **changes)
    train_by_spacy(config, tmp_path / "spacys")
    lines = list(training_run(config, tmp_path / "ours").run())
    theirs, ours = contents(tmp_path / "spacys"), contents(tmp_path / "ours")
    assert {name for name in ours if name.startswith("model-")} == set(theirs)
    for name, data in theirs.items():
        assert ours[name] == data, name
    assert len({data for name, data in ours.items() if name.endswith("linker/model")}) == 2
    steps = [line for line in lines if "loss" in line]
    assert [line["step"] for line in steps] == list(range(len(steps)))
    assert sum("scores" in line for line in lines) == 1 + (len(steps) - 1) // 2


INITIALIZE = "initialize.components.proxy_linker"


def test_what_evaluations_search_changes_no_weights(kb: Path, tmp_path: Path) -> None:
    trained = []
    for searched in (
        {"searched_corpus": None, "searched_entities": 20},
        {"searched_entities": 3},
        {"searched_entities": None},
    ):
        (folder := tmp_path / str(len(trained))).mkdir()
        sizes = {f"{INITIALIZE}.{k}": v for k, v in {"mined_entities": 20, **searched}.items()}
        config = write_config(folder, kb, train=TRAIN[:9], dev=TRAIN[9:], **sizes)
        list(training_run(config, folder / "output").run())
        trained.append(contents(folder / "output" / "model-last")["proxy_linker/model"])
    assert trained[0] == trained[1] == trained[2]


def broken_and_whole(config: Path, folder: Path, *breaks: int) -> tuple[Path, Path]:
    """The outputs of a training that is taken up again after so many lines of its log, and not."""
    whole, broken = folder / "whole", folder / "broken"
    list(training_run(config, whole).run())
    for given in [*breaks, 99]:
        list(islice(training_run(config, broken).run(), given))
    return broken, whole


SHUFFLED = {"@batchers": "spacy-pel.batch_by_mentions.v1", "size": 5, "shuffle_mentions": True}
EDGES = {"@misc": "spacy-pel.Arborescence.v1", "among": "random", "negatives": 2, "refresh": 2}


@pytest.mark.parametrize(
    "changes",
    [
        {f"{INITIALIZE}.mined_entities": 12, f"{INITIALIZE}.searched_entities": 20},
        {"components.proxy_linker.coreference": EDGES, "training.batcher": SHUFFLED},
    ],
)
def test_it_goes_on_to_the_end_of_spacys_training(
    kb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """With two indexes; and with gold clusters and batches of shuffled mentions."""
    monkeypatch.setattr(mention_batcher, "SHUFFLED_DOCUMENTS", 4)
    config = write_config(tmp_path, kb, train=TRAIN[:12], dev=TRAIN[9:], **changes)
    broken, whole = broken_and_whole(config, tmp_path, 5)
    assert_same_state(broken, whole)
    train_by_spacy(config, tmp_path / "spacys")
    for name, data in contents(tmp_path / "spacys").items():
        assert contents(whole)[name] == data, name


@pytest.fixture(scope="module")
def unbroken(kb: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict]]:
    folder = tmp_path_factory.mktemp("unbroken")
    lines = list(training_run(write_config(folder, kb), folder / "output").run())
    return folder, lines


@pytest.mark.parametrize("breaks", [[1, 4], [9]])
def test_it_goes_on_to_the_same_end(unbroken, tmp_path: Path, breaks: list[int]) -> None:
    folder, lines = unbroken
    output = tmp_path / "output"
    for given in breaks:  # so many lines of the log, steps and evaluations
        list(islice(training_run(folder / "config.cfg", output).run(), given))
    resumed = training_run(folder / "config.cfg", output)
    done = resumed.progress.step
    rest = list(resumed.run())
    assert timeless(rest) == timeless([line for line in lines if line["step"] > done])
    assert_same_state(output, folder / "output")


def test_a_linker_of_another_pipeline_goes_on_to_the_same_end(unbroken, tmp_path: Path) -> None:
    folder, _ = unbroken
    config = load_config(folder / "config.cfg", overrides={"training.max_steps": 3})
    config["components"]["proxy_linker"] = {"source": str(folder / "output" / "model-last")}
    config.to_disk(tmp_path / "config.cfg")
    assert_same_state(*broken_and_whole(tmp_path / "config.cfg", tmp_path, 5))


@pytest.mark.parametrize("part", ["model-last", "model-best", CHECKPOINT])
def test_a_save_that_fails_leaves_what_was_there(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    output = tmp_path / "output"
    run = training_run(config, output)
    scores = iter([0.1, 0.2])  # the second evaluation is the best, too
    run.score = lambda: (next(scores), {"nel_recall_at_1": 0.0})
    lines = run.run()
    list(islice(lines, 3))
    before = state(output)[0]

    # What a file and a folder need before they take their place.
    place = (os, "replace") if part == CHECKPOINT else (whole_files, "to_disk")
    needed = getattr(*place)

    def refuse(written: Any, *others: Any) -> None:
        if part in str(written):
            raise OSError(28, "No space left on device")
        needed(written, *others)

    monkeypatch.setattr(*place, refuse)
    with pytest.raises(OSError, match="No space"):
        list(lines)
    monkeypatch.undo()
    after = state(output)[0]
    assert {k: v for k, v in after.items() if part in k} == {
        k: v for k, v in before.items() if part in k
    }
    assert load_checkpoint(output / CHECKPOINT).facts["progress"]["step"] == 0


class LossThatBreaks(ProxyLoss):
    """Not a number from the n-th call on."""

    def __init__(self, n: int):
        super().__init__()
        self.left = n

    def of_scores(self, positive, negatives):
        self.left -= 1
        return super().of_scores(positive, negatives) * (1.0 if self.left >= 0 else math.nan)


def test_a_loss_that_is_not_a_number_stops_it(config: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    run = training_run(config, output)
    run.nlp.get_pipe("proxy_linker").trainer.loss = LossThatBreaks(2 * 3)  # two parts a step
    lines, before = [], {}
    with pytest.raises(PelError) as error:
        for line in run.run():
            lines.append(line)
            before = state(output)[0] if line["step"] else {}
    assert [line["step"] for line in lines] == [0, 0, 1, 2, 2]
    after, _, facts = state(output)
    assert after == before and facts["progress"]["step"] == 2
    assert str(error.value) == (
        'step 3, documents 29, 3, 11, 25: the loss is nan for a batch that begins with "eye pain"; '
        "lower the learning rate; what was saved before has not changed"
    )


def test_weights_that_are_not_numbers_stop_it_at_an_evaluation(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = training_run(config, tmp_path / "output")
    search = Pool.search
    monkeypatch.setattr(
        Pool, "search", lambda self, vectors, k, *limits: search(self, vectors * math.nan, k)
    )
    with pytest.raises(PelError, match="^evaluation after step 0, documents .*NaN.*saved before"):
        list(run.run())


def one_entity(texts=TRAIN[:3]) -> list[tuple[str, dict[str, str]]]:
    return [(text, {"MS": "C01"}) for text, _ in texts if "MS" in text]


@pytest.mark.parametrize(
    ("entities", "negatives"),
    [
        (PROBLEM, {"n": 6, "p": 0.5}),  # a single class
        (PROBLEM[:1], {"n": 6, "p": 0.5}),  # in a KB of it alone: nothing to tell it from
        (PROBLEM[:3], {"n": 60, "p": 0.5}),  # more negatives than entities
        (PROBLEM[:3], {"n": 60, "p": 0.0}),
    ],
)
def test_few_entities_are_enough(
    tmp_path: Path, entities: list[Entity], negatives: dict[str, float]
) -> None:
    kb = build_kb(entities, tmp_path / "kb").path
    changes = {f"components.proxy_linker.negatives.{k}": v for k, v in negatives.items()}
    texts = one_entity()
    config = write_config(tmp_path, kb, train=texts, dev=texts, **changes)
    run = training_run(config, tmp_path / "output")
    lines = list(islice(run.run(), 5))
    assert all(math.isfinite(line["loss"]) for line in lines if "loss" in line)
    assert lines[-1]["scores"]["nel_recall_at_64"] == 1.0


def test_a_dev_corpus_of_other_identifiers_is_an_error(kb: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, kb, dev=[("It is MS.", {"MS": "D009103"})])
    with pytest.raises(PelError, match="dev has no nel_recall_at_1, so .* the same identifiers"):
        list(training_run(config, tmp_path / "output").run())


# Progress


def evaluated(scores: list[float]) -> list[RunProgress]:
    """A training with an evaluation at every second step, after each of them."""
    after = []
    for n in range(1, len(scores) + 1):
        progress = RunProgress()
        for i, score in enumerate(scores[:n]):
            progress.step = 2 * i
            progress.note_score(score)
        after.append(progress)
    return after


def test_early_stopping_looks_at_the_earliest_of_the_best() -> None:
    after = evaluated([0.1, 0.5, 0.4, 0.5, 0.3])
    assert [progress.is_over(patience=6, max_steps=0) for progress in after] == [False] * 4 + [True]
    assert not any(progress.is_over(patience=0, max_steps=0) for progress in after)


@pytest.mark.parametrize(("max_steps", "over"), [(0, False), (5, False), (4, True), (3, True)])
def test_it_is_over_at_the_last_step(max_steps: int, over: bool) -> None:
    assert evaluated([0.1, 0.2, 0.3])[-1].is_over(patience=0, max_steps=max_steps) is over
    assert not RunProgress(step=9).is_over(patience=1, max_steps=1)  # not before an evaluation


def test_a_score_is_the_best_if_none_is_higher() -> None:
    progress = RunProgress()
    best = []
    for progress.step, score in enumerate([0.1, 0.5, 0.4, 0.5, 0.6]):
        best.append(progress.note_score(score))
    assert best == [True, True, False, True, True]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_peak_of_memory_is_what_the_system_says() -> None:
    highest = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024
    assert peak_memory_mb() == pytest.approx(highest, abs=8)
