"""Blocks linked by the actors of a Ray cluster. Ray repeats the work of a worker that is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import PelError
from ..system.ray_session import device_and_workers, ray_session
from .block_linker import BlockJob, BlockLinker
from .document_blocks import BlockReport, FileGroup
from .link_files import LinkProgress

# Without a limit Ray would repeat a block forever, also one that kills its workers.
_RETRIES = 4
_LINKERS_PER_READER = 8  # one process reads files faster than many more link them


class LinkingActor:
    """An actor of Ray Data. A batch is one block."""

    def __init__(self, job: BlockJob, device: str) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # an actor has one core
        self.link = BlockLinker(job, device)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[BlockReport]]:
        """Link a block. An error is returned, not raised: Ray would wrap it in a traceback."""
        (item,) = batch["item"]
        if isinstance(item, BlockReport):
            return {"report": [item]}
        try:
            return {"report": [self.link(item)]}
        except Exception as error:
            return {"report": [_failure(item.name, error)]}


def read_groups(
    batch: dict[str, np.ndarray], job: BlockJob, groups: Sequence[FileGroup]
) -> Iterator[dict[str, list[Any]]]:
    """The blocks of groups of files, as rows of their own, and reports of those that are done."""
    for group in (groups[number] for number in batch["group"]):
        try:
            for item in job.work(group):
                yield {"item": [item]}
        except Exception as error:
            yield {"item": [_failure(group.name, error)]}


def linked_by_ray(
    job: BlockJob,
    groups: Sequence[FileGroup],
    address: str | None,
    workers: int | None,
    progress: LinkProgress,
) -> Iterator[BlockReport]:
    """Link blocks on a Ray cluster; see ``link_to_folder``. The reports come in any order.

    Ray Data reads the files in some processes, which send blocks to actors that hold the pipeline.
    It reads no further ahead than its memory for objects allows.
    """
    with ray_session(address, kept="the blocks that are finished"):
        for row in _rows(job, groups, workers).iter_rows() if groups else ():
            report = row["report"]
            if report.problem:
                raise PelError(report.problem, report.remedy)
            if report.is_new:
                _tell(report, progress)
            yield report


def _rows(job: BlockJob, groups: Sequence[FileGroup], workers: int | None) -> Any:
    """The lazy dataset of reports."""
    import ray

    kind, n_linkers = device_and_workers()
    n_linkers = workers or n_linkers
    numbers = [{"group": number} for number in range(len(groups))]
    rows = ray.data.from_items(numbers, override_num_blocks=len(numbers))
    rows.context.target_max_block_size = 1  # bytes: each row is sent as soon as it is there
    return rows.map_batches(
        read_groups,
        fn_args=(job, groups),
        batch_size=1,
        compute=ray.data.TaskPoolStrategy(size=-(-n_linkers // _LINKERS_PER_READER)),
        num_cpus=0,  # the actors have all cores, and would leave none
    ).map_batches(
        LinkingActor,
        fn_constructor_args=(job, "cuda" if kind == "GPU" else "cpu"),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=n_linkers),
        num_gpus=1 if kind == "GPU" else None,
        num_cpus=1,
        max_task_retries=_RETRIES,
    )


def _tell(report: BlockReport, progress: LinkProgress) -> None:
    documents = report.counts.documents
    for _ in range(documents):
        progress.linked(report.n_bytes / documents)
    for message in report.counts.skipped:
        progress.say(f"Skipped {message}")


def _failure(name: str, error: Exception) -> BlockReport:
    if isinstance(error, PelError):
        return BlockReport(name, problem=error.problem, remedy=error.remedy)
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return BlockReport(
        name, problem=f"{name}: a worker failed: {reason}", remedy="use --engine local to see where"
    )
