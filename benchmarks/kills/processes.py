"""Work in processes that are killed: right before an operation on files, or after some time."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

Work = Callable[[Path], object]


class Kill(NamedTuple):
    """When a process is killed: right before its n-th operation on files, or after some seconds."""

    operation: int = 0
    seconds: float = 300.0


class Run(NamedTuple):
    """A process that has ended.

    Attributes:
        seconds: How long it ran.
        operations: Its operations on files; 0 if it did not come to its end.
        killed: Whether it was killed.
        failed: Whether an error ended it, which it printed.
    """

    seconds: float
    operations: int
    killed: bool
    failed: bool


class Process:
    """A fork of this process that does some work in a folder, until it is killed."""

    def __init__(self, work: Work, folder: Path, kill: Kill = Kill()) -> None:
        reader, writer = os.pipe()
        self._pipe = reader
        self._started = time.perf_counter()
        self.id = os.fork()
        if self.id:
            os.close(writer)
            return
        try:
            os.close(reader)
            # Nothing handles this signal: it ends the process as SIGKILL does.
            signal.setitimer(signal.ITIMER_REAL, kill.seconds)
            done = counted_operations(folder, kill.operation)
            work(folder)
            os.write(writer, str(done["n"]).encode())
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)

    def ended(self) -> Run:
        """Waits for the end."""
        with os.fdopen(self._pipe) as pipe:
            operations = int(pipe.read() or 0)
        status = os.waitpid(self.id, 0)[1]
        killed = status in (signal.SIGKILL, signal.SIGALRM)
        failed = status != 0 and not killed
        return Run(time.perf_counter() - self._started, operations, killed, failed)


def counted_operations(folder: Path, last: int) -> dict[str, int]:
    """Count this process's operations on files in a folder from now on; before the last, kill it."""
    done = {"n": 0}
    kinds = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")

    def watch(event: str, arguments: tuple) -> None:
        if event == "ctypes.dlsym":
            counts = arguments[1] == "renameat2"  # which exchanges two names
        else:
            counts = event in kinds and is_inside(arguments[0])
        if counts:
            done["n"] += 1
            if done["n"] == last:
                os.kill(os.getpid(), signal.SIGKILL)

    def is_inside(path: object) -> bool:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return False
        name = os.fsdecode(path)
        return name.startswith(str(folder)) or not os.path.isabs(name)  # in a folder that is open

    sys.addaudithook(watch)
    return done
