"""Files and folders that appear whole, also where the process is killed at one of its steps."""

import os
from pathlib import Path

import pytest

from spacy_pel.io import whole_files
from spacy_pel.io.whole_files import whole_folder

from ..conftest import run_python

# Forks a child a step, which kills itself at that step while it replaces a folder; ends with the
# step that is not reached.
KILLER = """
import os, shutil, signal, sys
from itertools import count
from pathlib import Path
from spacy_pel.io import whole_files

def dying(function, step, calls):
    def call(*arguments, **keywords):
        if next(calls) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keywords)
    return call

folder = Path(sys.argv[1])
for step in count():
    out = folder / f"step{step}" / "out"
    with whole_files.whole_folder(out) as old:
        (old / "weights").write_text("old")
        (old / "only_old").mkdir()
    if not os.fork():
        calls = count()
        for owner, name in ((Path, "rename"), (os, "fsync"), (os, "unlink"), (os, "rmdir")):
            setattr(owner, name, dying(getattr(owner, name), step, calls))
        with whole_files.whole_folder(out) as new:
            (new / "weights").write_text("new")
            (new / "only_new").mkdir()
        os._exit(0)
    if os.wait()[1] == 0:
        break
"""


def state(out: Path) -> str:
    names = {path.name for path in out.iterdir()}
    text = (out / "weights").read_text()
    assert names == {"weights", f"only_{text}"}
    return text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
def test_killed_at_each_step(tmp_path: Path) -> None:
    run_python(KILLER, tmp_path, cwd=Path(__file__).parents[2])
    steps = sorted(tmp_path.glob("step*"), key=lambda path: int(path.name.removeprefix("step")))
    outs = [folder / "out" for folder in steps]
    (missing,) = (out for out in outs if not out.exists())
    (aside,) = missing.parent.glob(".out.*.old")
    aside.rename(missing)
    states = [state(out) for out in outs]
    assert len(states) > 5 and states == sorted(states, reverse=True)  # the old ones, the new ones
    assert set(states) == {"old", "new"}


def test_all_is_on_the_disk_before_it_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def note(path: Path) -> None:
        synced.append(path.name)
        assert (tmp_path / "out").exists() == (path == tmp_path)

    monkeypatch.setattr(whole_files, "to_disk", note)
    with whole_folder(tmp_path / "out") as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "file").touch()
        (folder / "link").symlink_to("nothing")
    assert synced == ["file", "sub", folder.name, tmp_path.name]
