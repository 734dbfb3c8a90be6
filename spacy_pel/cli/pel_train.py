"""``pel train``: spaCy's training with checkpoints, a progress line and a log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from .apps import command, pel
from .terminal import msg, progress_bar


@command(
    pel,
    "train",
    after_all="all that was saved before is whole, and --resume goes on from it",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def train_cli(
    ctx: typer.Context,
    config: Annotated[str, Argument(help='Config file, or one of ours, such as "mesh_document"')],
    output: Annotated[Path, Option("--output", "-o", help="Folder for pipeline, checkpoint, log")],
    resume: Annotated[bool, Option("--resume", help="Go on from OUTPUT's checkpoint")] = False,
    gpu_id: Annotated[int, Option("--gpu-id", "-g", help="GPU, or -1 for the CPU")] = -1,
) -> None:
    """Train a pipeline, with checkpoints and a log.

    The weights are those of "spacy train". OUTPUT also gets a line of log.jsonl for each step, and a
    checkpoint at each evaluation. After a crash, run the same command with --resume: it ends with the
    same weights as a run without the crash. Without --resume, files of an earlier run in OUTPUT are
    replaced, its pipelines at the first evaluation.

    Settings of the config can be given as options:

    \b
    Examples:
      python -m spacy pel train configs/demo.cfg --output training/demo --training.max_steps 300
      python -m spacy pel train mesh_document --output training/mesh --paths.data DATA --paths.encoder BERT
    """
    from spacy.cli._util import parse_config_overrides, setup_gpu, show_validation_error
    from spacy.util import load_config

    from ..packaging.shipped_files import config_file
    from ..pipeline.pipelines import unknown_names_explained
    from ..training.loop import run_training, start_training

    overrides = parse_config_overrides(ctx.args)
    setup_gpu(gpu_id)
    path = config_file(config)
    with show_validation_error(path):
        loaded = load_config(path, overrides=overrides, interpolate=False)
    initialising = show_validation_error(path, hint_fill=False)
    with unknown_names_explained(path), initialising, _whole_log():
        run = start_training(loaded, output, resume=resume, gpu_id=gpu_id, report=msg.info)
    if run is None:
        msg.good(f"Training is finished: {output / 'model-best'}, {output / 'model-last'}")
        return
    if run.progress.step >= 0:
        msg.info(f"Going on after step {run.progress.step}")
    steps = {"initial": run.progress.step + 1, "total": run.expected_steps}
    with progress_bar(**steps, desc="Training", unit=" steps") as bar:

        def show(line: dict[str, Any]) -> None:
            if "scores" in line:
                bar.write(_evaluation(line))
            else:
                bar.total = run.expected_steps
                bar.set_postfix_str(_progress(line), refresh=False)
                bar.update()

        run_training(run, show)
    if not run.keeps_checkpoints:
        msg.warn(
            "No checkpoint was kept: that needs the optimizer spacy-pel.AdamW.v1, and torch "
            "weights in every component that is trained"
        )
    msg.good(f"Trained: {output / 'model-best'}, {output / 'model-last'}")


@contextmanager
def _whole_log() -> Iterator[None]:
    """Within the block, all that the package logs is printed: initialising a pipeline takes minutes."""
    logger = logging.getLogger("spacy_pel")
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)


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
