"""Run a worker over items in this process, in several processes, or on a Ray cluster.

A worker is a function that turns an item into a result.
"""

import logging
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from ..errors import PelError

Worker = Callable[[Any], Any]

ENGINES = ("local", "ray")
# Without a limit, Ray would repeat an item that kills its workers forever.
_RETRIES = 4


def check_engine(engine: str) -> None:
    """Raise a PelError for an unknown engine."""
    if engine not in ENGINES:
        raise PelError(f'unknown engine "{engine}"', f"choose one of {', '.join(ENGINES)}")


def local_results(
    work: Worker, items: Iterable[Any], n_process: int = 1
) -> Generator[Any, None, None]:
    """Yield the results of items, in their order.

    A single process is this process. With several, at most two items per process are in progress. The
    processes end as soon as the caller ends or fails. Errors of workers are raised unchanged.

    Raises:
        PelError: A worker process ended unexpectedly.
    """
    if n_process == 1:
        yield from map(work, items)
        return
    context = multiprocessing.get_context("fork")  # shares the memory of loaded models
    # The processes end when the parent's end of the pipe closes, even if the parent is killed.
    child_end, parent_end = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(n_process, context, _begin, (work, child_end, parent_end))
    in_progress: deque[Future[Any]] = deque()
    try:
        for item in items:
            in_progress.append(pool.submit(_work, item))
            if len(in_progress) >= 2 * n_process:
                yield in_progress.popleft().result()
        while in_progress:
            yield in_progress.popleft().result()
    except BrokenProcessPool as error:
        raise PelError(
            "a worker ended unexpectedly, most likely because memory ran out",
            "run it again with fewer processes: finished blocks are kept",
        ) from error
    finally:
        parent_end.close()
        pool.shutdown(cancel_futures=True)
        child_end.close()


_worker: Worker  # set in each worker process


def _begin(work: Worker, child_end: Connection, parent_end: Connection) -> None:
    """Initialise a worker process. It ends with its parent and ignores signals, which the parent handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent_end.close()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # otherwise each process would use all cores

    def end_with_parent() -> None:
        child_end.poll(None)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    global _worker
    _worker = work


def _work(item: Any) -> Any:
    return _worker(item)


class Actor:
    """A worker of a Ray cluster.

    The first item creates the worker function, so that its error reaches the caller.
    """

    def __init__(self, make: Callable[[str], Worker], device: str) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # an actor has one core
        self._make = partial(make, device)
        self._worker: Worker | None = None

    def work(self, item: Any) -> Any:
        """Return the result of an item."""
        self._worker = self._worker or self._make()
        return self._worker(item)


def ray_results(
    make: Callable[[str], Worker],
    items: Iterable[Any],
    *,
    address: str | None = None,
    workers: int | None = None,
) -> Generator[Any, None, None]:
    """Yield the results of items from a Ray cluster, in any order. Ray repeats the work of lost workers.

    Args:
        make: Returns the worker of a process for the name of a torch device. It must be picklable.
        items: The items, which must be picklable.
        address: The address of the cluster. None starts Ray on this computer, for the life of this process,
            unless this process has started it already.
        workers: The maximum number of workers. None: one per GPU, or one per core if there is no GPU.

    Raises:
        PelError: Ray is not installed or cannot be reached, loses too many workers, or a worker failed.
    """
    try:
        import ray
        from ray.exceptions import RayError
        from ray.util import ActorPool
    except ImportError as error:
        remedy = 'install it: pip install "spacy-pel[ray]"'
        raise PelError('the engine "ray" needs Ray', remedy) from error

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(
            address,
            ignore_reinit_error=True,
            log_to_driver=False,
            logging_level=logging.WARNING,
        )
    except Exception as error:  # Ray raises errors of many classes here
        remedy = "give the --address of a cluster that runs, or leave it out to start Ray here"
        raise PelError(f"cannot reach or start Ray ({_first_line(error)})", remedy) from error
    try:
        resources = ray.cluster_resources()
        kind = "GPU" if resources.get("GPU") else "CPU"
        remote = ray.remote(
            max_restarts=-1,
            max_task_retries=_RETRIES,
            num_cpus=1,
            num_gpus=int(kind == "GPU"),
        )(Actor)
        n_devices = int(resources[kind])
        n_workers = min(workers or n_devices, n_devices)
        device = "cuda" if kind == "GPU" else "cpu"
        pool = ActorPool([remote.remote(make, device) for _ in range(n_workers)])
        for item in items:
            if not pool.has_free():
                yield pool.get_next_unordered()
            pool.submit(lambda actor, item: actor.work.remote(item), item)
        while pool.has_next():
            yield pool.get_next_unordered()
    except RayError as error:
        cause = getattr(error, "cause", error)  # the message of a worker's RayError is a traceback
        if isinstance(cause, PelError):
            raise cause from None
        remedy = "read its logs, and run it again: finished blocks are kept"
        raise PelError(f"Ray gave up ({_first_line(cause)})", remedy) from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(".")
