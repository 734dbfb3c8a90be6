"""``pel train``: the log, resuming, and errors in one line."""

from pathlib import Path

import pytest
import spacy

from spacy_pel.kb import build_kb
from spacy_pel.training.loop import TrainingRun

from ..conftest import contents, records
from ..pipeline.conftest import PROBLEM
from ..training.problem import timeless, write_config


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kb(PROBLEM, tmp_path_factory.mktemp("train") / "kb").path


def models(output: Path) -> dict[str, bytes]:
    return {k: v for k, v in contents(output).items() if k.startswith("model-")}


def test_a_run_and_one_that_was_interrupted(run, kb, tmp_path, monkeypatch) -> None:
    config = write_config(tmp_path, kb)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    said = run("train", config, "--output", whole, "--training.max_steps", 4)
    assert f"Trained: {whole / 'model-best'}" in said and "Step 4: recall_at_1" in said
    assert " left out, 0 tokens split" in said  # told while the pipeline is initialized
    log = records(whole / "log.jsonl")
    assert [line["step"] for line in log] == [0, 0, 1, 2, 2, 3, 4, 4]
    assert spacy.load(whole / "model-last").meta["performance"]["proxy_linker_loss"] > 0

    def interrupt(self: TrainingRun, finished: bool) -> None:
        if self.progress.step == 4:
            raise KeyboardInterrupt
        save(self, finished)

    save = TrainingRun._save_checkpoint
    monkeypatch.setattr(TrainingRun, "_save_checkpoint", interrupt)
    arguments = (config, "--output", broken, "--training.max_steps", 4, "--resume")
    said = run("train", *arguments, code=130)
    assert f"No checkpoint in {broken}: training begins" in said
    assert "interrupted; the last checkpoint is complete, and --resume continues from it" in said
    monkeypatch.undo()
    with (broken / "log.jsonl").open("a") as file:
        file.write('{"stop": 2}\n')  # a damaged line
        file.write('{"step": 3, "lo')  # as a killed process may leave it

    other = (*arguments[:-3], "--training.max_steps", 5, "--training.dropout", 0.2, "--resume")
    said = run("train", *other, code=1)
    assert "the checkpoint in training.dropout, training.max_steps; give the same config" in said
    assert "Resuming after step 2" in run("train", *arguments)
    assert timeless(records(broken / "log.jsonl")) == timeless(log)
    assert models(whole) == models(broken)
    assert f"Training is finished: {broken / 'model-best'}" in run("train", *arguments)


def test_a_name_that_is_not_installed(run, kb: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, kb)
    text = config.read_text("utf8")
    config.write_text(text.replace("spacy-pel.ProxyLoss.v2", "spacy-pel.New.v1"))
    said = run("train", config, "--output", tmp_path / "output", code=1)
    assert f'{config}: spaCy does not find "spacy-pel.New.v1"; check its spelling' in said
