"""Who does the work of a job: this process, several processes, or the actors of a Ray cluster.

``make(device)`` gives a worker: a function that makes one block of an item and returns a result. It is
called once in each process, with the name of a torch device. An item may also be ``Done``: it has its
result already and goes to no worker.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..errors import PelError
from ..system.ray_session import device_and_workers, ray_session

T = TypeVar("T")
Worker = Callable[[Any], Any]

ENGINES = ("local", "ray")
# Without a limit Ray would repeat an item forever, also one that kills its workers.
_RETRIES = 4
_WORKERS_PER_READER = 8  # one process reads items faster than many more do the work


class Done(NamedTuple):
    """An item whose result is known."""

    result: Any


def check_engine(engine: str) -> None:
    """PelError if there is no such engine."""
    if engine not in ENGINES:
        raise PelError(f'unknown engine "{engine}"', f"choose one of {', '.join(ENGINES)}")


def local_results(
    make: Callable[[str], Worker], items: Iterable[Any], devices: Sequence[str] = ("cpu",)
) -> Iterator[Any]:
    """The results of items, in their order.

    With one device this process does the work. With several there is a process for each, and at most
    two items for each are under way. If the caller ends or fails, the processes end at once. For CUDA
    devices ``make`` must be plain data, such as a ``partial``.

    Raises:
        PelError: A process ended unexpectedly. Errors of workers are raised as they are.
    """
    if len(devices) == 1:
        worker = make(devices[0])
        yield from (item.result if isinstance(item, Done) else worker(item) for item in items)
        return
    # A fork shares what this process has loaded; CUDA does not survive it.
    forks = sys.platform == "linux" and not any(name.startswith("cuda") for name in devices)
    context = multiprocessing.get_context("fork" if forks else "spawn")
    free = context.SimpleQueue()
    for device in devices:
        free.put(device)
    # The processes end when nobody has this end open any more: also if this process is killed.
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(len(devices), context, _begin, (make, free, theirs, ours))
    under_way: deque = deque()
    try:
        for item in items:
            under_way.append(item if isinstance(item, Done) else pool.submit(_work, item))
            if len(under_way) >= 2 * len(devices):
                yield _result(under_way.popleft())
        while under_way:
            yield _result(under_way.popleft())
    except BrokenProcessPool as error:
        raise PelError(
            "a worker ended unexpectedly, most often because memory ran out",
            "run it again with fewer processes: what is finished is kept",
        ) from error
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        theirs.close()


def _result(item: Any) -> Any:
    return item.result if isinstance(item, Done) else item.result()


_worker: Worker | None = None  # that of a worker process, and how it is made
_make: Callable[[], Worker]


def _begin(make: Callable[[str], Worker], free: Any, theirs: Connection, ours: Connection) -> None:
    """Begin a worker process. Signals are for its parent, with which it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ours.close()

    def end_with_parent() -> None:
        theirs.poll(None)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    global _make
    _make = partial(make, free.get())


def _work(item: Any) -> Any:
    global _worker
    _worker = _worker or _make()
    return _worker(item)


def ray_results(
    make: Callable[[str], Worker],
    items: Sequence[Any],
    *,
    read: Callable[[Any], Iterable[Any]] | None = None,
    address: str | None = None,
    workers: int | None = None,
) -> Iterator[Any]:
    """The results of items, in any order, made on a Ray cluster.

    There is one worker for each GPU of the cluster, or for each core if it has no GPU. Ray repeats the
    work of a worker that is lost. It reads no further ahead than its memory for objects allows.

    Args:
        make: See above. It and the items must be plain data.
        read: Gives the items that each item stands for, in processes that do only this.
        address: The address of the cluster. None starts Ray on this computer.
        workers: The number of workers. None: as many as the cluster has room for.

    Raises:
        PelError: Ray is not installed or cannot be reached, it loses too many workers, or a worker
            failed.
    """
    with ray_session(address, kept="the blocks that are finished"):
        import ray

        kind, n_workers = device_and_workers()
        n_workers = workers or n_workers
        numbers = [{"number": number} for number in range(len(items))]
        rows = ray.data.from_items(numbers, override_num_blocks=len(numbers) or 1)
        rows.context.target_max_block_size = 1  # bytes: each row is sent as soon as it is there
        read_rows = rows.map_batches(
            _read,
            fn_args=(items, read),
            batch_size=1,
            compute=ray.data.TaskPoolStrategy(size=-(-n_workers // _WORKERS_PER_READER)),
            num_cpus=0,  # the actors have all cores, and would leave none
        )
        made = read_rows.map_batches(
            Actor,
            fn_constructor_args=(make, "cuda" if kind == "GPU" else "cpu"),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=n_workers),
            num_gpus=1 if kind == "GPU" else None,
            num_cpus=1,
            max_task_retries=_RETRIES,
        )
        for row in made.iter_rows() if items else ():
            if row["item"].failure is not None:
                raise PelError(*row["item"].failure)
            yield row["item"].value


@dataclass(frozen=True)
class Sent:
    """What is sent to an actor, or back: a value, or why there is none. (Ray would unpack a tuple.)"""

    value: Any = None
    failure: tuple[str, str] | None = None

    @classmethod
    def of_error(cls, error: Exception) -> Sent:
        """The problem and the remedy of an error: Ray would wrap one that is raised in a traceback."""
        if isinstance(error, PelError):
            return cls(failure=(error.problem, error.remedy))
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return cls(failure=(f"a worker failed: {reason}", "use --engine local to see where"))


class Actor:
    """An actor of Ray Data. A batch is one item."""

    def __init__(self, make: Callable[[str], Worker], device: str) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # an actor has one core
        self.make = partial(make, device)
        self.worker: Worker | None = None

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[Sent]]:
        """Do the work of an item."""
        (sent,) = batch["item"]
        if sent.failure is not None:
            return {"item": [sent]}
        if isinstance(sent.value, Done):
            return {"item": [Sent(sent.value.result)]}
        try:
            self.worker = self.worker or self.make()
            return {"item": [Sent(self.worker(sent.value))]}
        except Exception as error:
            return {"item": [Sent.of_error(error)]}


def _read(
    batch: dict[str, np.ndarray], items: Sequence[Any], read: Callable[[Any], Iterable[Any]] | None
) -> Iterator[dict[str, list[Sent]]]:
    """The items that an item stands for, each as a row of its own."""
    (number,) = batch["number"]
    try:
        for item in read(items[number]) if read else [items[number]]:
            yield {"item": [Sent(item)]}
    except Exception as error:
        yield {"item": [Sent.of_error(error)]}
