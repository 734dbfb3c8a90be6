"""The Ray engine, on a local Ray of two workers."""

from __future__ import annotations

import builtins
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.jobs.embed import embed_kb
from spacy_pel.kb import KnowledgeBase

from .conftest import contents

pytestmark = pytest.mark.usefixtures("small_chunks")


@pytest.fixture
def two_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow
def test_a_killed_worker_s_chunk_is_made_by_another(
    linker, bare_kb: KnowledgeBase, tmp_path: Path, monkeypatch, two_workers
) -> None:
    """The vectors, and with them all files, are those of a single process."""
    from spacy_pel.jobs import workers

    killed = tmp_path / "killed"

    class Mortal(workers.Actor):  # Ray sends a class of a function as it is, not by its name
        def __call__(self, batch):
            if batch["item"][0].item == 1 and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    monkeypatch.setattr(workers, "Actor", Mortal)
    alone = embed_kb(shutil.copytree(bare_kb.path, tmp_path / "alone"), linker)
    together = embed_kb(bare_kb.path, linker, engine="ray")
    assert killed.exists()
    assert contents(together.path) == contents(alone.path)


@pytest.mark.slow
def test_what_a_worker_cannot_do_is_said_in_one_line(
    linker, bare_kb: KnowledgeBase, monkeypatch, two_workers
) -> None:
    from spacy_pel.jobs import workers

    class Failing(workers.Actor):
        def __init__(self, make, device):
            job = make.__self__
            super().__init__(job._replace(checksum="another").saved_worker, device)

    monkeypatch.setattr(workers, "Actor", Failing)
    with pytest.raises(PelError, match="^.*: was changed meanwhile; run kb embed again$"):
        embed_kb(bare_kb.path, linker, engine="ray")


def test_a_cluster_that_is_not_there(linker, bare_kb: KnowledgeBase) -> None:
    pytest.importorskip("ray")
    with pytest.raises(PelError, match="cannot reach or start Ray .*; give the --address"):
        embed_kb(bare_kb.path, linker, engine="ray", address="nowhere")


def test_without_ray(linker, bare_kb: KnowledgeBase, monkeypatch) -> None:
    original = builtins.__import__

    def without_ray(name: str, *arguments):
        if name.partition(".")[0] == "ray":
            raise ImportError(name)
        return original(name, *arguments)

    before = contents(bare_kb.path)
    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(PelError, match=r'install it: pip install "spacy-pel\[ray\]"'):
        embed_kb(bare_kb.path, linker, engine="ray")
    assert contents(bare_kb.path) == before
