"""spaCy's training loop with a log and exact checkpoints."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import (
    DIR_MODEL_BEST,
    DIR_MODEL_LAST,
    create_before_to_disk_callback,
    create_evaluation_callback,
    create_train_batches,
    subdivide_batch,
    update_meta,
)
from spacy.util import dict_to_dot, registry, resolve_dot_names
from thinc.api import Config, constant, fix_random_seed
from torch import Tensor

from ..errors import PelError
from ..io.whole_files import whole_file, whole_folder
from ..models.architectures.towers import AnyModel
from ..models.packed_weights import DAMAGE, read_signed, signed, under
from .optimizer import AdamW
from .trainer import NO_LOSS, Trainer

CHECKPOINT = "checkpoint.safetensors"
LOG = "log.jsonl"

# Plain data, and tensors by name: weights, the optimizer's state and torch's random states.
Checkpoint = tuple[dict[str, Any], dict[str, Tensor]]


def start_training(
    config: Config,
    output: Path,
    *,
    resume: bool = False,
    gpu_id: int = -1,
    report: Callable[[str], object] = lambda line: None,
) -> TrainingRun | None:
    """Initialise the pipeline of a config for ``run_training``.

    Without ``resume``, the checkpoint of an earlier run in the folder is removed. Its pipelines stay until
    the first evaluation replaces them. With ``resume``, training continues from the checkpoint and reaches
    the same weights as an uninterrupted run.

    Args:
        config: A training config of spaCy, not yet interpolated.
        output: The folder of the pipelines "model-best" and "model-last", the checkpoint and the log.
        resume: Continue from a checkpoint if there is one.
        gpu_id: The GPU, or -1 for the CPU.
        report: Called with a message if there is no checkpoint.

    Returns:
        The run, whose ``progress.step`` is the last step of the checkpoint, or -1. None if the training has
        finished.

    Raises:
        PelError: The checkpoint is damaged or of another config, or a corpus or KB has an error.
    """
    source, checkpoint = config.interpolate().to_str(), None
    if resume and not (output / CHECKPOINT).exists():
        report(f"No checkpoint in {output}: training begins")
    elif resume:
        checkpoint = facts, _ = load_checkpoint(output / CHECKPOINT)
        before, now = (dict_to_dot(Config().from_str(text)) for text in (facts["config"], source))
        changed = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
        if changed:
            raise PelError(
                f"the config differs from that of the checkpoint in {', '.join(changed[:5])}",
                "give the same config and overrides, or train into another folder",
            )
        if facts["finished"]:
            return None
    run = TrainingRun(init_nlp(config, use_gpu=gpu_id), output, source)
    if checkpoint:
        run.resume(*checkpoint)
    output.mkdir(parents=True, exist_ok=True)
    if not checkpoint:
        (output / CHECKPOINT).unlink(missing_ok=True)
    return run


def run_training(
    run: TrainingRun, progress: Callable[[dict[str, Any]], object] = lambda line: None
) -> None:
    """Train to the end, and write a line of ``log.jsonl`` for each step and each evaluation.

    ``progress`` is called with each line. The lines of evaluations have "scores".

    Raises:
        PelError: A loss or a gradient is not finite, or the dev corpus cannot be scored.
    """
    with (run.output / LOG).open("a", encoding="utf8") as log:
        log.truncate(run.progress.log_size)  # drop lines after the checkpoint
        for line in run.run():
            log.write(json.dumps(line) + "\n")
            log.flush()
            progress(line)


class TrainingRun:
    """The training of an initialised pipeline by the ``[training]`` block of its config.

    The weights equal those of ``spacy train`` with the same config and seed. Each evaluation also writes a
    checkpoint with ``source``, the config as the user gave it. Pipelines and checkpoint are replaced
    atomically; nothing is written after an error.
    """

    def __init__(self, nlp: Language, output: Path, source: str):
        config = nlp.config.interpolate()
        if config["training"]["seed"] is not None:
            fix_random_seed(config["training"]["seed"])
        settings: dict[str, Any] = registry.resolve(config["training"], schema=ConfigSchemaTraining)
        corpora = [settings["train_corpus"], settings["dev_corpus"]]
        train_corpus, dev_corpus = resolve_dot_names(config, corpora)
        self.nlp = nlp
        self.output = output
        self.source = source
        self.settings = settings
        self.optimizer = settings["optimizer"]
        self.batches = create_train_batches(
            nlp, train_corpus, settings["batcher"], settings["max_epochs"]
        )
        # States of ``random`` at the start of each epoch, for spaCy's shuffling.
        self.epochs: list[Any] = []
        # The components that are trained.
        self.pipes: dict[str, Any] = {
            name: pipe
            for name, pipe in cast("list[tuple[str, Any]]", nlp.pipeline)
            if name not in settings["frozen_components"]
            and getattr(pipe, "is_trainable", False)
            and pipe.model not in (True, False, None)
        }
        self.score = create_evaluation_callback(nlp, dev_corpus, settings["score_weights"])
        rate = settings["dropout"]
        self.dropouts: Any = constant(rate) if isinstance(rate, float) else rate
        self.progress = RunProgress()

    @property
    def keeps_checkpoints(self) -> bool:
        """Tell whether the optimizer's state can be saved: only that of torch weights in AdamW."""
        return isinstance(self.optimizer, AdamW) and not self.optimizer.mom1

    @property
    def trainers(self) -> dict[str, Trainer]:
        """Return the trainers of the linkers that are in a training session."""
        trainers = {name: getattr(pipe, "trainer", None) for name, pipe in self.pipes.items()}
        return {name: trainer for name, trainer in trainers.items() if trainer is not None}

    def run(self) -> Iterator[dict[str, Any]]:
        """Train to the end, and yield the lines of the log; errors are those of ``run_training``."""
        progress, settings = self.progress, self.settings
        while not progress.is_over(settings["patience"], settings["max_steps"]):
            try:
                progress.epoch, batch = self._next_batch()
            except StopIteration:  # max_epochs
                break
            progress.step += 1
            yield self._update(batch)
            if progress.step % settings["eval_frequency"] == 0:
                yield self._evaluate(batch)
                self._save_checkpoint(finished=False)
        self._save_pipeline(is_best=False)
        self._save_checkpoint(finished=True)

    def resume(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Continue from a checkpoint of the same config."""
        self.progress = RunProgress(**facts["progress"])
        self.nlp.meta["performance"] = facts["performance"]
        for string in facts["strings"]:  # evaluations added some, such as ids
            self.nlp.vocab.strings.add(string)
        first: list[Example] = []
        for _ in range(self.progress.step + 1):  # read the corpus up to the same position
            if len(self.epochs) < len(facts["epochs"]):
                _set_python_random(facts["epochs"][len(self.epochs)])
            _, batch = self._next_batch()
            first = first or batch
            self.optimizer.step_schedules()
            next(self.dropouts)
        # Linkers with a source make their trainers from the first examples. This must happen while
        # numpy's random state is that of the beginning.
        for pipe in self.pipes.values():
            if hasattr(pipe, "trainer") and pipe.trainer is None:
                pipe.prepare_training(self._parts(first)[0])
        models = self._models()
        for name, model in models.items():
            model.from_bytes(tensors[f"weights/{name}"].numpy().tobytes())
        for name, trainer in self.trainers.items():
            # Before the optimizer: a trainer may freeze weights.
            trainer.restore(facts["trainers"][name])
        for name, model in models.items():
            self.optimizer.load_state_dict(model, under(f"optimizer/{name}/", tensors))
        _set_python_random(facts["random"]["python"])
        np.random.set_state(tuple(facts["random"]["numpy"]))
        torch.set_rng_state(tensors["random/torch"])
        if torch.cuda.is_available() and "random/cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random/cuda"])

    def _next_batch(self) -> tuple[int, list[Example]]:
        """Return the number of the epoch and the next batch."""
        state = random.getstate()
        epoch, batch = next(self.batches)
        if epoch == len(self.epochs):
            self.epochs.append(state)
        return epoch, list(batch)

    def _update(self, batch: list[Example]) -> dict[str, Any]:
        """Do one step, and return its line of the log.

        ``loss`` and ``adversarial`` are means over the parts of the batch (``accumulate_gradient``).
        ``gradient_norm`` is the norm before clipping; None for optimizers other than AdamW. ``seconds`` is
        the time of all steps so far, without evaluations.
        """
        started = perf_counter()
        learn_rate, parts = self.optimizer.learn_rate, self._parts(batch)
        settings, progress = self.settings, self.progress
        position = {"step": progress.step, "epoch": progress.epoch}
        with self._placing_errors(batch):
            if settings["before_update"]:
                settings["before_update"](self.nlp, position)
            drop = next(self.dropouts)
            for part in parts:
                self.nlp.update(
                    part,
                    drop=drop,
                    losses=progress.losses,
                    sgd=cast("Any", False),  # gradients are kept
                    exclude=settings["frozen_components"],
                    annotates=settings["annotating_components"],
                )
            for pipe in self.pipes.values():
                pipe.finish_update(self.optimizer)
        self.optimizer.step_schedules()
        took = perf_counter() - started
        progress.seconds += took
        mentions, loss = 0, NO_LOSS
        for trainer in self.trainers.values():
            mentions, loss = mentions + trainer.mentions, loss.plus(trainer.total_loss)
            trainer.mentions, trainer.total_loss = 0, NO_LOSS
        return {
            **position,
            "loss": loss.clean / max(1, len(parts)),
            "adversarial": loss.adversarial / max(1, len(parts)),
            "learn_rate": learn_rate,
            "gradient_norm": getattr(self.optimizer, "last_norm", None),
            "mentions": mentions,
            "mentions_per_second": mentions / took,
            "seconds": progress.seconds,
        }

    def _parts(self, batch: list[Example]) -> list[list[Example]]:
        """Split a batch into parts whose gradients are accumulated before one update."""
        return list(subdivide_batch(batch, self.settings["accumulate_gradient"]))

    def _models(self) -> dict[str, AnyModel]:
        """Return the trained models; of a linker the one of its trainer."""
        trainers = self.trainers
        return {name: trainers.get(name, pipe).model for name, pipe in self.pipes.items()}

    def _evaluate(self, batch: list[Example]) -> dict[str, Any]:
        """Score dev, save the pipeline, and return the line of the log."""
        with (
            self._placing_errors(batch, "evaluation after "),
            self.nlp.use_params(self.optimizer.averages),
        ):
            score, scores = self.score()
        weighted = [name for name, weight in self.settings["score_weights"].items() if weight]
        if weighted and all(scores.get(name) is None for name in weighted):
            raise PelError(
                f"dev has no {' or '.join(weighted)}, so pipelines cannot be compared",
                "check that dev and the KB use the same identifiers",
            )
        is_best = self.progress.note_score(score)
        info = {"other_scores": scores, "losses": self.progress.losses}
        with self.nlp.select_pipes(disable=self.settings["frozen_components"]):
            update_meta(self.settings, self.nlp, info)
        self.progress.losses = {}
        self._save_pipeline(is_best)
        return {
            "step": self.progress.step,
            "score": score,
            "is_best": is_best,
            "scores": {k: v for k, v in scores.items() if isinstance(v, (int, float))},
        }

    @contextmanager
    def _placing_errors(self, batch: list[Example], before: str = "") -> Iterator[None]:
        """Add the step and the documents (ids, or first words) to errors."""
        try:
            yield
        except PelError as error:
            docs = [example.reference for example in batch]
            names = ", ".join(str(doc.user_data.get("id") or repr(doc.text[:30])) for doc in docs)
            placed = error.at(f"{before}step {self.progress.step}, documents {names}")
            remedy = f"{error.remedy}; the saved pipelines and checkpoint have not changed"
            raise PelError(placed.problem, remedy) from error

    def _save_pipeline(self, is_best: bool) -> None:
        before_to_disk = create_before_to_disk_callback(self.settings["before_to_disk"])
        last, best = self.output / DIR_MODEL_LAST, self.output / DIR_MODEL_BEST
        with self.nlp.use_params(self.optimizer.averages), whole_folder(last) as folder:
            before_to_disk(self.nlp).to_disk(folder)
        if is_best:
            with whole_folder(best) as folder:
                shutil.copytree(last, folder, dirs_exist_ok=True)

    def _save_checkpoint(self, finished: bool) -> None:
        if not self.keeps_checkpoints:
            return
        if (self.output / LOG).exists():
            self.progress.log_size = (self.output / LOG).stat().st_size
        # Before the random states: this encodes indexes.
        trainers = {name: trainer.state() for name, trainer in self.trainers.items()}
        tensors = {"random/torch": torch.get_rng_state()}
        if torch.cuda.is_available():
            tensors["random/cuda"] = torch.cuda.get_rng_state()
        for name, model in self._models().items():
            weights = bytearray(model.to_bytes())
            tensors[f"weights/{name}"] = torch.frombuffer(weights, dtype=torch.uint8)
            for key, state in self.optimizer.state_dict(model).items():
                tensors[f"optimizer/{name}/{key}"] = state.detach().cpu().contiguous()
        kind, keys, *rest = cast("tuple[Any, ...]", np.random.get_state())
        facts = {
            "config": self.source,
            "finished": finished,
            "progress": vars(self.progress),
            "performance": self.nlp.meta.get("performance", {}),
            "strings": sorted(self.nlp.vocab.strings),
            "epochs": self.epochs,
            "random": {"python": random.getstate(), "numpy": [kind, keys.tolist(), *rest]},
            "trainers": trainers,
        }
        save_checkpoint(self.output / CHECKPOINT, facts, tensors)


def save_checkpoint(path: Path, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a checkpoint (safetensors) atomically.

    Raises:
        PelError: safetensors cannot write the file.
        OSError: The system cannot write or replace it.
    """
    metadata = signed({"facts": json.dumps(facts)}, tensors)  # a string keeps the order
    try:
        with whole_file(path, "xb") as file:
            save_file(tensors, file.name, metadata=metadata)
    except SafetensorError as error:
        raise PelError(
            f"{path}: cannot be written ({error})",
            "free some disk space and continue with --resume",
        ) from error


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; PelError if the file is damaged or of another kind."""
    try:
        facts, tensors = read_signed(path)
        return json.loads(facts["facts"]), tensors
    except DAMAGE as error:
        raise PelError(
            f"{path}: not a checkpoint, or damaged ({error})",
            "remove it to train from the beginning",
        ) from error


def _set_python_random(state: list[Any]) -> None:
    """Set ``random`` to a state that went through JSON."""
    version, keys, gauss = state
    random.setstate((version, tuple(keys), gauss))


@dataclass
class RunProgress:
    """The progress of a training, as plain data."""

    step: int = -1  # the last step; the first is 0, as in spaCy
    epoch: int = 0  # of the last step
    results: list[list[float]] = field(default_factory=list)  # score and step of each evaluation
    losses: dict[str, float] = field(default_factory=dict)  # since the last evaluation
    seconds: float = 0.0  # of all steps, without evaluations
    log_size: int = 0  # bytes of the log at the last checkpoint

    def is_over(self, patience: int, max_steps: int) -> bool:
        """Tell whether spaCy would stop. A setting of 0 never stops."""
        if not self.results:
            return False
        _, best = max((score, -step) for score, step in self.results)  # the earliest of equals
        no_gain = bool(patience) and self.step + best >= patience
        return bool(no_gain or (max_steps and self.step >= max_steps))

    def note_score(self, score: float) -> bool:
        """Note the score of an evaluation; return whether it is the best so far."""
        self.results.append([score, self.step])
        return score == max(self.results)[0]
