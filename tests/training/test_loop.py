"""The training loop against spaCy's own, broken off and taken up again, and what goes wrong."""

import math
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from spacy.util import load_config

from spacy_pel.corpora import batchers
from spacy_pel.errors import PelError
from spacy_pel.io import whole_files
from spacy_pel.kb import build_kb
from spacy_pel.models.losses import ProxyLoss
from spacy_pel.training import loop
from spacy_pel.training.loop import CHECKPOINT, RunProgress, load_checkpoint, save_checkpoint
from spacy_pel.training.pool import NegativePool

from ..conftest import contents
from ..pipeline.conftest import PROBLEM, TRAIN
from .problem import timeless, train_by_spacy, training_run, write_config


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kb(PROBLEM, tmp_path_factory.mktemp("loop") / "kb").path


def state(output: Path) -> tuple[dict[str, bytes], dict[str, torch.Tensor], dict[str, Any]]:
    """All that a run leaves, without the times."""
    facts, tensors = load_checkpoint(output / CHECKPOINT)
    facts["progress"].pop("seconds")
    pipelines = {k: v for k, v in contents(output).items() if k.startswith("model-")}
    return pipelines, tensors, facts


def assert_same_end(config: Path, folder: Path, breaks: tuple[int, ...]) -> Path:
    """Train, and train with breaks after so many lines of the log: the output of the first."""
    whole, broken = folder / "whole", folder / "broken"
    lines = list(training_run(config, whole).run())
    for given in breaks:
        list(islice(training_run(config, broken).run(), given))
    resumed = training_run(config, broken)
    done = resumed.progress.step
    rest = [line for line in lines if line["step"] > done]
    assert timeless(list(resumed.run())) == timeless(rest) != timeless(lines)
    (files, tensors, facts), (files_2, tensors_2, facts_2) = state(whole), state(broken)
    assert files == files_2 and facts == facts_2
    assert tensors.keys() == tensors_2.keys()
    assert all(torch.equal(tensors[name], tensors_2[name]) for name in tensors)
    return whole


INITIALIZE = "initialize.components.proxy_linker"
TWO_INDEXES = {f"{INITIALIZE}.mined_entities": 12, f"{INITIALIZE}.searched_entities": 20}
SHUFFLED = {"@batchers": "spacy-pel.batch_by_mentions.v1", "size": 5, "shuffle_mentions": True}
EDGES = {"@misc": "spacy-pel.Arborescence.v1", "among": "random", "negatives": 2, "refresh": 2}
CLUSTERS = {"components.proxy_linker.coreference": EDGES, "training.batcher": SHUFFLED}
# With averages, which cannot be kept in a checkpoint.
ADAM = {"optimizer.@optimizers": "Adam.v1", "max_steps": 0, "max_epochs": 1}


@pytest.mark.parametrize(
    ("changes", "breaks"),
    [
        ({f"training.{k}": v for k, v in ADAM.items()}, None),
        (TWO_INDEXES, (1, 4)),
        (CLUSTERS, (5,)),
        ({}, (9,)),  # after the last evaluation
    ],
)
def test_it_trains_as_spacy_does_also_if_it_is_broken_off(
    kb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes, breaks
) -> None:
    monkeypatch.setattr(batchers, "SHUFFLE_BUFFER", 4)
    config = write_config(tmp_path, kb, train=TRAIN[:12], dev=TRAIN[9:], **changes)
    if breaks is None:
        ours = tmp_path / "ours"
        assert list(training_run(config, ours).run()) and not (ours / CHECKPOINT).exists()
    else:
        ours = assert_same_end(config, tmp_path, breaks)
    train_by_spacy(config, tmp_path / "spacys")
    theirs = contents(tmp_path / "spacys")
    assert {name for name in contents(ours) if name.startswith("model-")} == set(theirs)
    for name, data in theirs.items():
        assert contents(ours)[name] == data, name


def test_a_linker_of_another_pipeline_goes_on_to_the_same_end(kb: Path, tmp_path: Path) -> None:
    path = write_config(tmp_path, kb)
    list(training_run(path, tmp_path / "other").run())
    config = load_config(path, overrides={"training.max_steps": 3})
    config["components"]["proxy_linker"] = {"source": str(tmp_path / "other" / "model-last")}
    config.to_disk(path)
    assert_same_end(path, tmp_path, (5,))


def test_what_evaluations_search_changes_no_weights(kb: Path, tmp_path: Path) -> None:
    trained = []
    for searched in ({"searched_corpus": None, "searched_entities": 20}, {"searched_entities": 3}):
        (folder := tmp_path / str(len(trained))).mkdir()
        sizes = {f"{INITIALIZE}.{k}": v for k, v in {"mined_entities": 20, **searched}.items()}
        config = write_config(folder, kb, train=TRAIN[:9], dev=TRAIN[9:], **sizes)
        list(training_run(config, folder / "output").run())
        trained.append(contents(folder / "output" / "model-last")["proxy_linker/model"])
    assert trained[0] == trained[1]


@pytest.mark.parametrize("part", ["model-last", "model-best"])
def test_a_save_that_fails_leaves_what_was_there(kb, tmp_path, monkeypatch, part) -> None:
    output = tmp_path / "output"
    run = training_run(write_config(tmp_path, kb), output)
    scores = iter([0.1, 0.2])  # the second evaluation is the best, too
    run.score = lambda: (next(scores), {"nel_recall_at_1": 0.0})
    lines = run.run()
    list(islice(lines, 3))
    before, to_disk = contents(output / part), whole_files.to_disk

    def refuse(written: Any) -> None:
        if part in str(written):
            raise OSError(28, "No space left on device")
        to_disk(written)

    monkeypatch.setattr(whole_files, "to_disk", refuse)
    with pytest.raises(OSError, match="No space"):
        list(lines)
    assert contents(output / part) == before
    assert load_checkpoint(output / CHECKPOINT)[0]["progress"]["step"] == 0


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch) -> None:
    def fill_the_disk(tensors, path: str, **named) -> None:
        Path(path).write_bytes(b"half of one")
        raise SafetensorError("No space left on device")

    path = tmp_path / "checkpoint"
    save_checkpoint(path, {"step": 1}, {})
    with pytest.raises(TypeError):
        save_checkpoint(path, {"step": object()}, {})
    monkeypatch.setattr(loop, "save_file", fill_the_disk)
    with pytest.raises(PelError, match=r"cannot be written \(No space .*; free some disk space"):
        save_checkpoint(path, {"step": 2}, {})
    assert load_checkpoint(path)[0] == {"step": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("data", [b"", b"half of one", b"\x02\x00\x00\x00\x00\x00\x00\x00{}"])
def test_what_is_no_checkpoint_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "checkpoint").write_bytes(data)
    with pytest.raises(PelError, match="not a checkpoint, or damaged.*; remove it"):
        load_checkpoint(tmp_path / "checkpoint")


class LossThatBreaks(ProxyLoss):
    """Not a number from the n-th call on."""

    def __init__(self, n: int):
        super().__init__()
        self.left = n

    def of_scores(self, positive, negatives):
        self.left -= 1
        return super().of_scores(positive, negatives) * (1.0 if self.left >= 0 else math.nan)


def test_a_loss_that_is_not_a_number_stops_it(kb: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    run = training_run(write_config(tmp_path, kb), output)
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
        "lower the learning rate; the saved pipelines and checkpoint have not changed"
    )


def test_weights_that_are_not_numbers_stop_it_at_an_evaluation(kb, tmp_path, monkeypatch) -> None:
    search = NegativePool.search
    monkeypatch.setattr(NegativePool, "search", lambda self, v, *k: search(self, v * math.nan, *k))
    with pytest.raises(PelError, match="^evaluation after step 0, documents .*NaN.*have not ch"):
        list(training_run(write_config(tmp_path, kb), tmp_path / "output").run())


def test_a_dev_corpus_of_other_identifiers_is_an_error(kb: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, kb, dev=[("It is MS.", {"MS": "D009103"})])
    with pytest.raises(PelError, match="dev has no nel_recall_at_1, so .* the same identifiers"):
        list(training_run(config, tmp_path / "output").run())


ENDS = [(6, 0, 8), (0, 0, None), (0, 5, 6), (0, 4, 4), (1, 1, 2)]


@pytest.mark.parametrize(("patience", "max_steps", "last"), ENDS)
def test_it_stops_after_an_evaluation_by_the_earliest_of_the_best(patience, max_steps, last):
    """With an evaluation at every second step. The best score is that of step 2, and of 6."""
    progress, best, over = RunProgress(step=9), [], []
    assert not progress.is_over(1, 1)  # not before an evaluation
    for progress.step, score in zip(range(0, 10, 2), [0.1, 0.5, 0.4, 0.5, 0.3]):
        best.append(progress.note_score(score))
        over.append(progress.is_over(patience, max_steps))
    assert best == [True, True, False, True, False]
    assert over.index(True) == last // 2 if last else not any(over)
