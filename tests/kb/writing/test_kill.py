"""Writers that are killed at each of their steps leave the old KB or the new one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spacy_pel.kb import Entity
from spacy_pel.kb.folder.transaction import folder_transaction
from spacy_pel.kb.verify import verify
from spacy_pel.kb.writing.entity_changes import add_entities, remove_entities

from ..examples import ENTITIES
from ..learnt import learn
from ..living import NameRows, living_kb

# Forks a child a step, which kills itself at that step of the writer, in a copy of the KB; ends
# with the step that is not reached. It has used no FAISS when it forks.
KILLER = """
import os, shutil, signal, sys
from itertools import count
from pathlib import Path
import faiss  # once, for all children
from spacy_pel.kb import Entity, build_kb
from spacy_pel.kb.writing.entity_changes import update_entities
from spacy_pel.kb.writing.compaction import compact
from spacy_pel.kb.writing.mention_changes import forget_mentions
from tests.kb.learnt import learn
from tests.kb.living import NameRows, embed

WRITERS = {
    "build": lambda folder: build_kb([Entity("X1", "new")], folder),
    "embed": lambda folder: embed(folder, dtype="int8"),
    "update": lambda folder: update_entities(folder, [Entity("C2", "new")], NameRows()),
    "compact": compact,
    "learn": lambda folder: learn(folder, "b", [("scan", "C3"), ("gout", "C1")]),
    "forget": lambda folder: forget_mentions(folder, "a"),
}

def dying(function, step, calls):
    def call(*arguments, **keywords):
        if next(calls) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keywords)
    return call

old, writer = Path(sys.argv[1]), WRITERS[sys.argv[2]]
for step in count():
    folder = old.with_name(f"step{step}")
    shutil.copytree(old, folder)
    if not os.fork():
        calls = count()
        os.fsync = lambda descriptor: None  # slow, and nothing that a killed process needs
        for name in ("replace", "unlink"):
            setattr(os, name, dying(getattr(os, name), step, calls))
        writer(folder)
        os._exit(0)
    if os.wait()[1] == 0:
        break
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
@pytest.mark.parametrize("writer", ["build", "embed", "update", "compact", "learn", "forget"])
def test_killed_at_each_step(tmp_path: Path, writer: str) -> None:
    old = living_kb(tmp_path / "old", ENTITIES)
    if writer == "compact":
        add_entities(old, [Entity("C4", "gout")], NameRows())
        remove_entities(old, ["C3"])
    if writer in ("compact", "learn", "forget"):
        learn(old, "a", [("MS", "C3"), ("spectra", "C2")])
    command = [sys.executable, "-c", KILLER, str(old), writer]
    root = Path(__file__).parents[3]
    subprocess.run(command, check=True, timeout=120, cwd=root)
    steps = sorted(tmp_path.glob("step*"), key=lambda path: int(path.name.removeprefix("step")))
    manifests = [(folder / "manifest.json").read_bytes() for folder in steps]
    states = [(old / "manifest.json").read_bytes(), manifests[-1]]
    seen = [states.index(manifest) for manifest in manifests]
    assert seen == sorted(seen) and set(seen) == {0, 1}  # first the old one, then the new one
    for folder in steps:
        assert verify(folder) == []
        with folder_transaction(folder):  # the next writer, which sweeps what the killed one left
            pass
        files = json.loads((folder / "manifest.json").read_text())["files"]
        assert {path.name for path in folder.iterdir()} == {"manifest.json", *files}
