"""Blocks linked by Ray, on this computer by two workers; the reference is the engine "local"."""

from __future__ import annotations

import builtins
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.jobs.link import link_to_folder
from spacy_pel.jobs.link_docs import LinkingChoices

from .block_examples import files
from .test_link_files import Told


@pytest.fixture(scope="module")
def two_workers() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_same_bytes_though_a_worker_is_killed(
    choices: LinkingChoices, notes: Path, out: Path, tmp_path: Path, two_workers, monkeypatch
) -> None:
    from spacy_pel.jobs import workers

    killed = tmp_path / "killed"

    class Mortal(workers.Actor):  # Ray sends a class of a function as it is
        def __call__(self, batch):
            item = batch["item"][0].item
            if getattr(item, "name", "") == "a.jsonl-00000003" and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    class Failing(workers.Actor):
        def __init__(self, make, device):
            super().__init__(make, device)
            self.worker = no_disk

    def no_disk(block):
        raise RuntimeError("no disk")

    whole = out.with_name("whole.jsonl")
    link_to_folder(choices, notes, whole)
    monkeypatch.setattr(workers, "Actor", Mortal)
    told = Told()
    ways = {"engine": "ray", "workers": 2, "copy_to": str(tmp_path / "disk"), "progress": told}
    assert link_to_folder(choices, notes, out, **ways) == (6, 6, ())
    assert killed.exists()
    assert files(out) == files(whole)
    assert told.bytes == pytest.approx(told.total)
    # The next run has nothing left to link, and what fails is said in one line.
    monkeypatch.setattr(workers, "Actor", Failing)
    assert link_to_folder(choices, notes, out, engine="ray").documents == 6
    (out / ".pel" / "a.jsonl-00000003.json").unlink()
    with pytest.raises(PelError, match="a worker failed: RuntimeError: no disk"):
        link_to_folder(choices, notes, out, engine="ray")
    monkeypatch.setattr(workers, "Actor", Mortal)
    (notes / "b.jsonl").write_text("{\n")
    with pytest.raises(PelError, match=r"^document 1: .*b.jsonl, line 1: .* --on-error skip$"):
        link_to_folder(choices, notes / "b.jsonl", tmp_path / "bad.jsonl", engine="ray")


def test_a_cluster_that_is_not_there(choices: LinkingChoices, notes: Path, out: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(PelError, match="cannot reach or start Ray .*; give the --address"):
        link_to_folder(choices, notes, out, engine="ray", address="nowhere")


def test_without_ray(choices: LinkingChoices, notes: Path, out: Path, monkeypatch) -> None:
    original = builtins.__import__

    def without_ray(name: str, *arguments):
        if name.partition(".")[0] == "ray":
            raise ImportError(name)
        return original(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(PelError, match=r'install it: pip install "spacy-pel\[ray\]"'):
        link_to_folder(choices, notes, out, engine="ray")
    assert not out.exists()
