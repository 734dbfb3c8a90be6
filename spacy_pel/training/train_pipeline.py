"""The training of a pipeline in a folder: started or resumed, with a log of every step."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from thinc.api import Config

from ..system.json_lines import json_object
from ..system.whole_files import whole_file

if TYPE_CHECKING:
    from ..training.checkpoint import Checkpoint
    from ..training.loop import TrainingRun

LOG = "log.jsonl"


def start_training(
    config: Config,
    output: Path,
    *,
    resume: bool = False,
    gpu_id: int = -1,
    report: Callable[[str], object] = lambda line: None,
) -> TrainingRun | None:
    """Initialise the pipeline of a config, and make it ready to be trained by ``run_training``.

    Without ``resume``, checkpoint and log of an earlier run in the folder are removed. Its pipelines
    stay until the first evaluation replaces them. With ``resume``, training goes on from the
    checkpoint in the folder, to the same weights as without the interruption.

    Args:
        config: A training config of spaCy, not yet interpolated.
        output: The folder for the pipelines "model-best" and "model-last", checkpoint and log.
        resume: Whether to go on from a checkpoint, if there is one.
        gpu_id: The GPU that is used, or -1 for the CPU.
        report: Called with a line if there is no checkpoint to go on from.

    Returns:
        The run. Its ``progress.step`` is -1, or the last step before the checkpoint. None if there
        is nothing to resume because the training has ended.

    Raises:
        PelError: The checkpoint is damaged or of another config, or a corpus or KB is at fault.
    """
    # Imported here: torch takes seconds, and spaCy imports the commands for all of its own.
    from spacy.training.initialize import init_nlp

    from ..training.loop import TrainingRun

    source = config.interpolate().to_str()
    checkpoint = _last_checkpoint(output, source, report) if resume else None
    if checkpoint and checkpoint.facts["finished"]:
        return None
    run = TrainingRun(init_nlp(config, use_gpu=gpu_id), output, source)
    if checkpoint:
        run.resume(checkpoint)
    _clean(output, keep=checkpoint is not None)
    return run


def run_training(
    run: TrainingRun, progress: Callable[[dict[str, Any]], object] = lambda line: None
) -> None:
    """Train to the end, and write a line of ``log.jsonl`` for each step and each evaluation.

    Args:
        run: What ``start_training`` gave.
        progress: Called with each line of the log. The line of an evaluation has "scores".

    Raises:
        PelError: A loss or a gradient is not finite, or the dev corpus cannot be scored.
    """
    with _log(run.output / LOG, run.progress.step) as log:
        for line in run.run():
            log.write(json.dumps(line) + "\n")
            log.flush()
            progress(line)


def _last_checkpoint(
    output: Path, source: str, report: Callable[[str], object]
) -> Checkpoint | None:
    """The checkpoint in the folder. Raises PelError if it is that of another config."""
    from ..training.checkpoint import check_same_config, load_checkpoint
    from ..training.loop import CHECKPOINT

    if not (output / CHECKPOINT).exists():
        report(f"No checkpoint in {output}: training begins")
        return None
    checkpoint = load_checkpoint(output / CHECKPOINT)
    check_same_config(checkpoint, source)
    return checkpoint


def _clean(output: Path, *, keep: bool) -> None:
    """Make the folder, and remove half-written files of a killed run.

    Args:
        output: The folder.
        keep: Whether the checkpoint and the log stay. Pipelines stay in any case, until the first
            evaluation replaces them.
    """
    from ..training.loop import CHECKPOINT

    output.mkdir(parents=True, exist_ok=True)
    left = [] if keep else [CHECKPOINT, LOG]
    for path in [*(output / name for name in left), *output.glob(".*.tmp")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def _log(path: Path, last_step: int) -> Iterator[TextIO]:
    """The log, open to be continued. Damaged lines, and those of later steps, are removed."""
    kept = []
    if path.exists():
        lines = path.read_text(encoding="utf8", errors="replace").splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and _step(line) <= last_step]
    with whole_file(path) as file:
        file.writelines(kept)
    with open(path, "a", encoding="utf8") as file:
        yield file


def _step(line: str) -> float:
    """The step of a line of the log; infinity for a damaged line."""
    try:
        return int(json_object(line)["step"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return inf
