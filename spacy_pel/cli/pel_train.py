"""``pel train``: spaCy's training with checkpoints, a progress line and a log."""

from __future__ import annotations

import json
import logging
import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from spacy.cli._util import parse_config_overrides, setup_gpu, show_validation_error
from spacy.util import load_config

from ..pipeline.registered_names import unknown_names_explained
from ..system.whole_files import whole_file
from .apps import command, msg, pel

if TYPE_CHECKING:
    from ..training.checkpoint import Checkpoint
    from ..training.loop import TrainingRun

LOG = "log.jsonl"


@command(
    pel,
    "train",
    after_all="all that was saved before is whole, and --resume goes on from it",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def train_cli(
    ctx: typer.Context,
    config: Annotated[Path, typer.Argument(help="Config file", exists=True, dir_okay=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the pipeline, checkpoint and log")
    ],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from OUTPUT's checkpoint, if there is one")
    ] = False,
    gpu_id: Annotated[int, typer.Option("--gpu-id", "-g", help="GPU, or -1 for the CPU")] = -1,
) -> None:
    """Train a pipeline, as "spacy train" does.

    The weights are the same. Besides, OUTPUT gets a line of log.jsonl a step, and a checkpoint at
    every evaluation: after a crash, the same command with --resume goes on from it, and ends with
    the same weights as without the crash. Without --resume, what an earlier run left is replaced.

    Settings of the config can be given as options. With several GPUs, start one process for each;
    each learns from its share of every batch.

    \b
    Examples:
      python -m spacy pel train configs/demo.cfg --output training/demo
      python -m spacy pel train configs/demo.cfg --output training/demo --training.max_steps 300
      torchrun --nproc-per-node 2 -m spacy pel train configs/demo.cfg --output training/demo -g 0
    """
    # Imported where they are used: torch takes seconds.
    from spacy.training.initialize import init_nlp

    from ..training import distributed
    from ..training.loop import TrainingRun

    overrides = parse_config_overrides(ctx.args)
    distributed.join()
    setup_gpu(gpu_id + distributed.local_rank() if gpu_id >= 0 else -1)
    with show_validation_error(config):
        loaded = load_config(config, overrides=overrides, interpolate=False)
    source = loaded.interpolate().to_str()
    checkpoint = last_checkpoint(output, source) if resume else None
    if checkpoint and checkpoint.facts["finished"]:
        msg.good(f"Training is finished: {output / 'model-best'}, {output / 'model-last'}")
        return
    with unknown_names_explained(config):
        with show_validation_error(config, hint_fill=False), told_on_stderr():
            nlp = init_nlp(loaded, use_gpu=gpu_id)
        run = TrainingRun(nlp, output, source)
    if checkpoint:
        run.resume(checkpoint)
        msg.info(f"Going on after step {run.progress.step}")
    if distributed.is_first():
        clean(output, keep=checkpoint is not None)
        train(run)
        msg.good(f"Trained: {output / 'model-best'}, {output / 'model-last'}")
    else:
        deque(run.run(), maxlen=0)
    distributed.leave()


def train(run: TrainingRun) -> None:
    """Train to the end, with a line of the log a step, progress and the scores of evaluations."""
    from tqdm import tqdm

    with (
        _log(run.output / LOG, run.progress.step) as log,
        tqdm(
            initial=run.progress.step + 1, total=run.expected_steps, unit="step", mininterval=1
        ) as bar,
    ):
        for line in run.run():
            log.write(json.dumps(line) + "\n")
            log.flush()
            if "scores" in line:
                bar.write(_evaluation(line))
            else:
                bar.total = run.expected_steps
                bar.set_postfix_str(_progress(line), refresh=False)
                bar.update()
    if not run.keeps_checkpoints:
        msg.warn(
            "No checkpoint was kept: that needs the optimizer spacy-pel.AdamW.v1, and no component "
            "to be trained whose weights are not torch's"
        )


@contextmanager
def told_on_stderr() -> Iterator[None]:
    """Within the block, what the package logs of its work is a line on stderr each: to read the
    corpora, and to search the candidates of a reranker, takes minutes."""
    logger, handler = logging.getLogger("spacy_pel"), logging.StreamHandler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def last_checkpoint(output: Path, source: str) -> Checkpoint | None:
    """The checkpoint in the folder. Raises PelError if it is that of another config."""
    from ..training.checkpoint import check_same_config, load_checkpoint
    from ..training.loop import CHECKPOINT

    if not (output / CHECKPOINT).exists():
        msg.info(f"No checkpoint in {output}: training begins")
        return None
    checkpoint = load_checkpoint(output / CHECKPOINT)
    check_same_config(checkpoint, source)
    return checkpoint


def clean(output: Path, *, keep: bool) -> None:
    """Make the folder; remove what a killed run left half-written and, but to keep it, the rest."""
    from ..training.loop import CHECKPOINT

    output.mkdir(parents=True, exist_ok=True)
    kept = [] if keep else [CHECKPOINT, "model-best", "model-last", LOG]
    for path in [*(output / name for name in kept), *output.glob(".*.tmp")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def _log(path: Path, last_step: int) -> Iterator[TextIO]:
    """The log to write on, without what a killed run wrote of later steps."""
    kept = []
    if path.exists():
        lines = path.read_text(encoding="utf8").splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and _step(line) <= last_step]
    with whole_file(path) as file:
        file.writelines(kept)
    with open(path, "a", encoding="utf8") as file:
        yield file


def _step(line: str) -> int:
    return json.loads(line)["step"]


def _progress(line: dict[str, Any]) -> str:
    loss = line["loss"] + line["adversarial"]
    parts = [f"loss {loss:.3f}", f"rate {line['learn_rate']:.1e}"]
    if line["gradient_norm"] is not None:
        parts.append(f"norm {line['gradient_norm']:.2f}")
    return ", ".join([*parts, f"{line['mentions_per_second']:.0f} mentions/s"])


def _evaluation(line: dict[str, Any]) -> str:
    scores = ", ".join(
        f"{name.removeprefix('nel_')} {100 * line['scores'][name]:.1f}"
        for name in ("nel_recall_at_1", "nel_recall_at_64", "nel_mrr")
        if name in line["scores"]
    )
    return f"Step {line['step']}: {scores or round(line['score'], 3)}{' (best)' * line['is_best']}"
