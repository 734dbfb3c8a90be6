"""Chunks encoded by the actors of a Ray cluster. Ray repeats the work of a worker that is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import PelError
from ...system.ray_session import device_and_workers, ray_session
from .chunks import ChunkWorker, Job

# Without a limit Ray would repeat a chunk forever, also one that kills its workers.
_RETRIES = 4


class Actor:
    """An actor of Ray Data. A batch is one chunk."""

    def __init__(self, job: Job, device: str) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # an actor has one core
        self.worker = ChunkWorker(job, device)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[Any]]:
        """Encode a chunk. A PelError is returned, not raised: Ray would wrap it in a traceback."""
        number, problem, remedy = int(batch["number"][0]), "", ""
        try:
            self.worker(number)
        except PelError as error:
            problem, remedy = error.problem, error.remedy
        return {"number": [number], "problem": [problem], "remedy": [remedy]}


def made_by_ray(job: Job, numbers: Sequence[int], address: str | None) -> Iterator[int]:
    """Encode chunks on a Ray cluster; see ``finished_chunks``.

    The nodes must have this package and see the folder of the KB. There is one actor for each GPU of
    the cluster, or for each core if it has no GPU. The weights are those saved in the job.

    Args:
        job: The job.
        numbers: The numbers of the chunks.
        address: The address of the cluster. None starts Ray on this computer.

    Raises:
        PelError: Ray is not installed or cannot be reached, or it loses too many workers.
    """
    with ray_session(address, kept="the chunks that are finished"):
        for row in _made(job, numbers).iter_rows():
            if row["problem"]:
                raise PelError(row["problem"], row["remedy"])
            yield row["number"]


def _made(job: Job, numbers: Sequence[int]) -> Any:
    """The lazy dataset of finished chunks."""
    import ray

    kind, n_workers = device_and_workers()
    items = [{"number": number} for number in numbers]
    return ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        Actor,
        fn_constructor_args=(job, "cuda" if kind == "GPU" else "cpu"),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(n_workers, len(numbers))),
        num_gpus=1 if kind == "GPU" else None,
        num_cpus=1,
        max_task_retries=_RETRIES,
    )
