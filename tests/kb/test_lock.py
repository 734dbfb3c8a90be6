"""Two writers, a writer that was killed, and files that a reader has open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.transaction import remove_unless_open
from spacy_pel.system.whole_files import LOCK, writer_lock

fcntl = pytest.importorskip("fcntl")

HOLD = """
import sys
from pathlib import Path
from spacy_pel.system.whole_files import writer_lock
with writer_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_writer_is_told_who_holds_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    fault = rf"process {holder.pid} on .+ \(since .+\) is writing to it; wait until that has ended"
    for _ in range(2):
        with pytest.raises(PelError, match=fault), writer_lock(tmp_path):
            pass
    holder.kill()  # a killed writer holds nothing
    holder.wait()
    with pytest.raises(KeyboardInterrupt), writer_lock(tmp_path):
        for _ in range(2):  # a refusal does not free it
            with pytest.raises(PelError, match=f"process {os.getpid()}"), writer_lock(tmp_path):
                pass
        raise KeyboardInterrupt
    with writer_lock(tmp_path):
        assert (tmp_path / LOCK).exists()
    assert list(tmp_path.iterdir()) == []


def test_files_that_a_reader_has_open_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("content")
    with open(path) as first, open(path) as second:
        fcntl.flock(first, fcntl.LOCK_SH)
        fcntl.flock(second, fcntl.LOCK_SH)
        remove_unless_open(path)
        first.close()
        remove_unless_open(path)
        assert path.exists()
    remove_unless_open(path)
    assert not path.exists()
    remove_unless_open(path)
