"""What encodes the chunks: this process, one process for each GPU, or a Ray cluster.

An engine takes a job and the numbers of chunks, and yields each number when its chunk is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ...errors import PelError
from .chunks import ChunkEncoder, ChunkWorker, Job

if TYPE_CHECKING:
    from ...linking.retriever import Retriever

ENGINES = ("local", "ray")


def finished_chunks(
    job: Job, retriever: Retriever, numbers: Sequence[int], engine: str, address: str | None
) -> Iterator[int]:
    """Encode chunks, and yield the number of each when it is finished, in any order.

    Chunks that are finished before an error are kept.

    Args:
        job: The job.
        retriever: The retriever that encodes.
        numbers: The numbers of the chunks.
        engine: See ``embed_kb``.
        address: See ``embed_kb``.

    Raises:
        PelError: The engine is unknown, or a worker failed.
    """
    if engine not in ENGINES:
        raise PelError(f'unknown engine "{engine}"', f"choose one of {', '.join(ENGINES)}")
    if not numbers:
        return iter(())
    if engine == "ray":
        from .ray_engine import made_by_ray

        job.save_model(retriever)
        return made_by_ray(job, numbers, address)
    import torch

    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if not gpus:
        return made_here(job, numbers, retriever)
    job.save_model(retriever)
    if len(gpus) == 1:
        return made_here(job, numbers, job.load_retriever(gpus[0]))
    return made_by_processes(job, numbers, gpus)


def made_here(job: Job, numbers: Sequence[int], retriever: Retriever) -> Iterator[int]:
    """Encode chunks in this process."""
    with closing(ChunkEncoder(job, retriever)) as encoder:
        yield from map(encoder, numbers)


def made_by_processes(job: Job, numbers: Sequence[int], devices: Sequence[str]) -> Iterator[int]:
    """Encode chunks in one process for each torch device, with the weights saved in the job."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    free = context.SimpleQueue()
    for device in devices:
        free.put(device)
    pool = ProcessPoolExecutor(len(devices), context, _start_worker, (job, free))
    try:
        for future in as_completed([pool.submit(_make, number) for number in numbers]):
            yield future.result()
    except BrokenProcessPool as error:
        raise PelError(
            "a worker ended unexpectedly, most often because memory ran out",
            "run it again: the chunks that are finished are kept",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


_worker: ChunkWorker | None = None  # of a worker process


def _start_worker(job: Job, free: Any) -> None:
    global _worker
    _worker = ChunkWorker(job, free.get())


def _make(number: int) -> int:
    return _worker(number)
