"""Who does the work of a job: this process, several processes, or the actors of a Ray cluster.

A worker is a function that makes one block of an item and returns a result.
"""

import logging
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from ..errors import PelError

Worker = Callable[[Any], Any]

ENGINES = ("local", "ray")
# Without a limit Ray would repeat an item forever, also one that kills its workers.
_RETRIES = 4


def check_engine(engine: str) -> None:
    """PelError if there is no such engine."""
    if engine not in ENGINES:
        raise PelError(f'unknown engine "{engine}"', f"choose one of {', '.join(ENGINES)}")


def local_results(work: Worker, items: Iterable[Any], n_process: int = 1) -> Iterator[Any]:
    """The results of items, in their order.

    With one process this one does the work. With several, at most two items for each are under way.
    If the caller ends or fails, the processes end at once. Errors of workers are raised as they are.
    """
    if n_process == 1:
        yield from map(work, items)
        return
    context = multiprocessing.get_context("fork")  # which shares what this process has loaded
    # The processes end when nobody has this end open any more: also if this process is killed.
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(n_process, context, _begin, (work, theirs, ours))
    under_way: deque = deque()
    try:
        for item in items:
            under_way.append(pool.submit(_work, item))
            if len(under_way) >= 2 * n_process:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    except BrokenProcessPool as error:
        raise PelError(
            "a worker ended unexpectedly, most often because memory ran out",
            "run it again with fewer processes: what is finished is kept",
        ) from error
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        theirs.close()


_worker: Worker  # that of a worker process


def _begin(work: Worker, theirs: Connection, ours: Connection) -> None:
    """Begin a worker process. Signals are for its parent, with which it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ours.close()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # or each process would use all cores

    def end_with_parent() -> None:
        theirs.poll(None)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    global _worker
    _worker = work


def _work(item: Any) -> Any:
    return _worker(item)


class Actor:
    """A worker of a Ray cluster. It is made for the first item, whose result its error is."""

    def __init__(self, make: Callable[[str], Worker], device: str) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # it has one core
        self._make = partial(make, device)
        self._worker: Worker | None = None

    def work(self, item: Any) -> Any:
        """The result of an item."""
        self._worker = self._worker or self._make()
        return self._worker(item)


def ray_results(
    make: Callable[[str], Worker],
    items: Iterable[Any],
    *,
    address: str | None = None,
    workers: int | None = None,
) -> Iterator[Any]:
    """The results of items, in any order, made on a Ray cluster; ``make`` and they must be plain data.

    ``make`` gives the worker of a process, from the name of a torch device.
    There is one worker for each GPU of the cluster, or for each core if it has no GPU; ``workers`` at
    most. Ray repeats the work of one that is lost. Without an ``address`` it is started on this
    computer, unless this process has it already, and ends with this process.

    PelError if Ray is not installed or cannot be reached, loses too many workers, or one failed.
    """
    try:
        import ray
        from ray.exceptions import RayError
        from ray.util import ActorPool
    except ImportError as error:
        remedy = 'install it: pip install "spacy-pel[ray]"'
        raise PelError('the engine "ray" needs Ray', remedy) from error

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"log_to_driver": False, "logging_level": logging.WARNING}
    try:
        ray.init(address, ignore_reinit_error=True, **quiet)
    except Exception as error:  # Ray has no class of its own for it
        remedy = "give the --address of a cluster that runs, or leave it out to start Ray here"
        raise PelError(f"cannot reach or start Ray ({_first_line(error)})", remedy) from error
    try:
        resources = ray.cluster_resources()
        kind = "GPU" if resources.get("GPU") else "CPU"
        settings = {"max_restarts": -1, "max_task_retries": _RETRIES, "num_cpus": 1}
        remote = ray.remote(**settings, num_gpus=int(kind == "GPU"))(Actor)
        room = int(resources[kind])
        device = "cuda" if kind == "GPU" else "cpu"
        pool = ActorPool([remote.remote(make, device) for _ in range(min(workers or room, room))])
        for item in items:
            if not pool.has_free():
                yield pool.get_next_unordered()
            pool.submit(lambda actor, item: actor.work.remote(item), item)
        while pool.has_next():
            yield pool.get_next_unordered()
    except RayError as error:
        cause = getattr(error, "cause", error)  # the text of an error of a worker is a traceback
        if isinstance(cause, PelError):
            raise cause from None
        remedy = "see its logs, and run it again: the blocks that are finished are kept"
        raise PelError(f"Ray gave up ({_first_line(cause)})", remedy) from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(".")
