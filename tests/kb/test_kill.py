"""Writers that are killed at each of their steps leave the old KB or the new one; one writes at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.io.whole_files import LOCK, writer_lock
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.transaction import CHECKSUMS, writing

from ..conftest import run_python
from .living import ENTITIES, learn, living_kb, names_of

# Forks a child a step, which kills itself at that step of the writer, in a copy of the KB; ends
# with the step that is not reached. It has used no FAISS when it forks. A step is a file that is put
# in place or deleted, a statement of SQLite, or a page that it has to write early, for lack of cache.
KILLER = """
import os, shutil, signal, sqlite3, sys
from itertools import count
from pathlib import Path
import faiss  # once, for all children
from spacy_pel.kb import Entity, build_kb, transaction
from tests.kb.living import CHANGES

WRITERS = {**CHANGES, "build": lambda folder: build_kb([Entity("X1", "new")], folder)}
STEPS = ("BEGIN", "COMMIT", "DELETE", "INSERT INTO entity", "INSERT INTO re", "INSERT OR REPLACE")
transaction._CACHE = 4  # pages are written while the change goes on

def dying(function):
    def call(*arguments, **keywords):
        result = function(*arguments, **keywords)
        step_done()
        return result
    return call

def step_done(sql="COMMIT"):
    if sql.startswith(STEPS) and next(calls) == step:
        os.kill(os.getpid(), signal.SIGKILL)

class Tracing(sqlite3.Connection):
    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.set_trace_callback(step_done)

old, writer = Path(sys.argv[1]), WRITERS[sys.argv[2]]
connect = sqlite3.connect
for step in count():
    folder = old.with_name(f"step{step}")
    shutil.copytree(old, folder)
    if not os.fork():
        calls = count()
        os.fsync = lambda descriptor: None  # slow, and nothing that a killed process needs
        for name in ("replace", "unlink"):
            setattr(os, name, dying(getattr(os, name)))
        sqlite3.connect = lambda *a, **k: connect(*a, factory=Tracing, **k)
        writer(folder)
        os._exit(0)
    if os.wait()[1] == 0:
        break
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
@pytest.mark.parametrize("writer", ["build", "embed", "update", "remove", "learn", "forget"])
def test_killed_at_each_step(tmp_path: Path, writer: str) -> None:
    old = living_kb(tmp_path / "old", ENTITIES)
    if writer in ("learn", "forget"):
        learn(old, "a", [("MS", "C3"), ("spectra", "C2")])
    run_python(KILLER, old, writer, cwd=Path(__file__).parents[2])
    steps = sorted(tmp_path.glob("step*"), key=lambda path: int(path.name.removeprefix("step")))
    states = []
    for folder in steps:
        with KnowledgeBase.open(folder) as kb:  # as a reader first, which rolls back what was begun
            states.append(kb.settings["checksum"])
        assert verify(folder) == []
        with writing(folder):  # the next writer, which sweeps what the killed one left
            pass
        with KnowledgeBase.open(folder) as kb:
            assert {p.name for p in folder.iterdir()} | {CHECKSUMS} == names_of(kb)
    with KnowledgeBase.open(old) as kb:
        seen = [[kb.settings["checksum"], states[-1]].index(state) for state in states]
    assert seen == sorted(seen) and set(seen) == {0, 1}  # first the old one, then the new one


HOLD = """
import sys
from pathlib import Path
from spacy_pel.io.whole_files import writer_lock
with writer_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_writer_is_told_who_holds_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    fault = rf"process {holder.pid} on .+ \(since .+\) is writing to it; wait until that has ended"
    for _ in range(2):  # a refusal does not free it
        with pytest.raises(PelError, match=fault), writer_lock(tmp_path):
            pass
    holder.kill()  # a killed writer holds nothing
    holder.wait()
    with pytest.raises(KeyboardInterrupt), writer_lock(tmp_path):
        with pytest.raises(PelError, match=f"process {os.getpid()}"), writer_lock(tmp_path):
            pass
        raise KeyboardInterrupt
    with writer_lock(tmp_path):
        assert (tmp_path / LOCK).exists()
    assert list(tmp_path.iterdir()) == []
