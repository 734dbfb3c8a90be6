"""Ray on this computer, with two workers; the reference is the engine "local"."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spacy_pel.batch import workers
from spacy_pel.batch.document_blocks import LinkedCounts
from spacy_pel.batch.embed import embed_kb
from spacy_pel.errors import PelError

from .conftest import Told, files, link_to_folder


@pytest.fixture(scope="module")
def two_workers() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def mortal(killed: Path, is_deadly: Callable[[object], bool]) -> type:
    """An actor that an item kills once."""

    class Mortal(workers.Actor):  # Ray sends a class of a function as it is, not by its name
        def work(self, item):
            if is_deadly(item) and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().work(item)

    return Mortal


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks", "two_workers")
def test_a_killed_worker_s_chunk_is_made_by_another(linker, bare_kb, tmp_path, monkeypatch) -> None:
    """The vectors, and with them all files, are those of a single process."""
    killed = tmp_path / "killed"
    monkeypatch.setattr(workers, "Actor", mortal(killed, lambda name: name == "000001"))
    alone = embed_kb(shutil.copytree(bare_kb.path, tmp_path / "alone"), linker)
    together = embed_kb(bare_kb.path, linker, engine="ray")
    assert killed.exists()
    assert files(together.path) == files(alone.path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("two_workers")
def test_the_same_bytes_though_a_worker_is_killed(linking, notes, out, tmp_path, monkeypatch):
    class Failing(workers.Actor):
        def work(self, item):
            raise RuntimeError("no disk")

    whole, killed = out.with_name("whole.jsonl"), tmp_path / "killed"
    link_to_folder(linking, notes, whole)
    deadly = mortal(killed, lambda item: getattr(item, "name", "") == "a.jsonl-00000003")
    monkeypatch.setattr(workers, "Actor", deadly)
    told = Told()
    ways = {"engine": "ray", "workers": 2, "progress": told}
    assert link_to_folder(linking, notes, out, **ways) == LinkedCounts(6, 6)
    assert killed.exists()
    assert files(out) == files(whole)
    assert sum(told.updates) == told.total
    # The next run has nothing left to link, and what fails is said in one line.
    monkeypatch.setattr(workers, "Actor", Failing)
    assert link_to_folder(linking, notes, out, engine="ray").documents == 6
    (out / ".pel" / "a.jsonl-00000003.json").unlink()
    with pytest.raises(PelError, match="Ray gave up .RuntimeError: no disk."):
        link_to_folder(linking, notes, out, engine="ray")
    monkeypatch.setattr(workers, "Actor", deadly)
    (notes / "b.jsonl").write_text("{\n")
    with pytest.raises(PelError, match=r"^document 1: .*b.jsonl, line 1: .* --on-error skip$"):
        link_to_folder(linking, notes / "b.jsonl", tmp_path / "bad.jsonl", engine="ray")


def test_without_ray_or_its_cluster(linking, notes, out, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ray", None)
        with pytest.raises(PelError, match=r'install it: pip install "spacy-pel\[ray\]"'):
            link_to_folder(linking, notes, out, engine="ray")
    pytest.importorskip("ray")
    with pytest.raises(PelError, match="cannot reach or start Ray .*; give the --address"):
        link_to_folder(linking, notes, out, engine="ray", address="nowhere")
    assert not out.exists()
