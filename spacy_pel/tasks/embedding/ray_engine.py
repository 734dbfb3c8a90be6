"""Chunks encoded by the actors of a Ray cluster. Ray repeats the work of a worker that is lost."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import PelError
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
    try:
        import ray
        import ray.data
        from ray.exceptions import RayError
    except ImportError as error:
        raise PelError(
            'the engine "ray" needs Ray', 'install it: pip install "spacy-pel[ray]"'
        ) from error

    started = not ray.is_initialized()
    if started:
        _connect(address)
    try:
        for row in _made(job, numbers).iter_rows():
            if row["problem"]:
                raise PelError(row["problem"], row["remedy"])
            yield row["number"]
    except RayError as error:
        raise PelError(
            f"Ray gave up ({_summary(error)})",
            "see its logs, and run it again: the chunks that are finished are kept",
        ) from error
    finally:
        if started:
            ray.shutdown()


def _connect(address: str | None) -> None:
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.WARNING)
    except Exception as error:  # Ray has no class of its own for it
        raise PelError(
            f"cannot reach or start Ray ({_summary(error)})",
            "give the --address of a cluster that "
            "runs, or leave it away to start Ray on this computer",
        ) from error


def _made(job: Job, numbers: Sequence[int]) -> Any:
    """The lazy dataset of finished chunks."""
    import ray

    logging.getLogger("ray.data").setLevel(logging.WARNING)
    ray.data.DataContext.get_current().enable_progress_bars = False
    resources = ray.cluster_resources()
    kind = "GPU" if resources.get("GPU") else "CPU"
    n_workers = min(int(resources[kind]), len(numbers))
    items = [{"number": number} for number in numbers]
    return ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        Actor,
        fn_constructor_args=(job, "cuda" if kind == "GPU" else "cpu"),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=n_workers),
        num_gpus=1 if kind == "GPU" else None,
        num_cpus=1,
        max_task_retries=_RETRIES,
    )


def _summary(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
