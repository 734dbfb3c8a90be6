"""A run from its config to its line of results, killed in between, on the demo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from experiments import runner as module
from experiments.configs import Choices, Run, make_run
from experiments.corpora import DEMO
from experiments.runner import Runner
from experiments.variants import retriever

from spacy_pel.cli import pel

CHOICES = Choices(limit=6, steps=2)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that the runner gives, which are done in this process to save time."""
    given = []

    def in_this_process(arguments: Sequence[str]) -> None:
        given.append(arguments[0])
        pel(list(arguments), standalone_mode=False)

    monkeypatch.setattr(module, "_pel", in_this_process)
    return given


def run_of(runner: Runner, seed: int = 0) -> Run:
    return make_run(DEMO, retriever("Pb", "random", 8), seed, CHOICES, runner.work)


def test_a_run_is_done_once_and_taken_up_after_a_crash(
    project: Path, tmp_path: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner("demo", tmp_path / "results", tmp_path / "work", keep=False)
    run = run_of(runner)
    runner.prepare(DEMO, CHOICES, [run.variant])
    runner.prepare(DEMO, CHOICES, [run.variant])
    with monkeypatch.context() as patch:
        patch.setattr(module, "evaluate", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runner.do("retrieval", [run])
    assert list(runner.results) == []
    runner.do("retrieval", [run])
    runner.do("retrieval", [run])
    assert commands == ["kb", "train"]

    (line,) = runner.results
    assert (line["variant"], line["corpus"], line["seed"]) == ("Pb, random 8", "demo", 0)
    assert 0 <= line["metrics"]["demo"]["recall@1"]["in_kb"] <= 1
    assert line["training"]["steps"] == 3 and line["training"]["passes"]["proxies"] > 0
    assert line["training"]["gradient_norm"]["mean"] > 0
    record = runner.folder / line["record"]
    assert {path.name for path in record.iterdir()} == {"config.cfg", "log.jsonl", "metrics.json"}
    assert "seed = 0" in (record / "config.cfg").read_text()
    assert not run.folder.exists()  # weights and vectors


def test_what_others_need_stays_until_they_are_done(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner("demo", tmp_path / "results", tmp_path / "work", keep=False)
    base = run_of(runner)
    on_it = [run_of(runner, seed)._replace(retriever=base) for seed in (1, 2)]
    seen = []

    def pretend(experiment: str, run: Run) -> None:
        seen.append((run.seed, base.folder.exists()))
        run.folder.mkdir(parents=True)
        runner.results.append({"digest": run.digest})

    monkeypatch.setattr(runner, "_do", pretend)
    runner.do("reranking", [base, *on_it])
    assert seen == [(0, False), (1, True), (2, True)]
    assert not any(run.folder.exists() for run in (base, *on_it))
