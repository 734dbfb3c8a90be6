"""spaCy's training loop, step for step, with a log, and checkpoints from which a training goes on."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

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
from thinc.api import Config, Model, constant, fix_random_seed
from torch import Tensor

from ..errors import PelError
from ..io.whole_files import whole_file, whole_folder
from ..models.packed_weights import DAMAGE, read_signed, signed, under
from .optimizer import AdamW
from .trainer import NO_LOSS, Trainer

CHECKPOINT = "checkpoint.safetensors"
LOG = "log.jsonl"

# Plain data, and the weights, the optimizer's state and torch's random states by name.
Checkpoint = tuple[dict[str, Any], dict[str, Tensor]]


def start_training(
    config: Config,
    output: Path,
    *,
    resume: bool = False,
    gpu_id: int = -1,
    report: Callable[[str], object] = lambda line: None,
) -> TrainingRun | None:
    """Initialise the pipeline of a config, and make it ready to be trained by ``run_training``.

    Without ``resume``, the checkpoint of an earlier run in the folder is removed. Its pipelines stay
    until the first evaluation replaces them. With ``resume``, training goes on from the checkpoint,
    to the same weights as without the interruption.

    Args:
        config: A training config of spaCy, not yet interpolated.
        output: The folder for the pipelines "model-best" and "model-last", checkpoint and log.
        resume: Whether to go on from a checkpoint, if there is one.
        gpu_id: The GPU that is used, or -1 for the CPU.
        report: Called with a line if there is no checkpoint to go on from.

    Returns:
        The run, whose ``progress.step`` is the last one before the checkpoint, or -1. None if the
        training has ended.

    Raises:
        PelError: The checkpoint is damaged or of another config, or a corpus or KB is at fault.
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

    ``progress`` is called with each line. The line of an evaluation has "scores".

    Raises:
        PelError: A loss or a gradient is not finite, or the dev corpus cannot be scored.
    """
    with open(run.output / LOG, "a", encoding="utf8") as log:
        log.truncate(run.progress.log_size)  # of what came after the checkpoint, whole or half
        for line in run.run():
            log.write(json.dumps(line) + "\n")
            log.flush()
            progress(line)


class TrainingRun:
    """The training of an initialised pipeline, by the ``[training]`` block of its config.

    The weights are those of ``spacy train`` with the same config and seed. In addition, the output
    folder gets a checkpoint at every evaluation, with ``source``, the config as the user gave it.
    Pipelines and checkpoint are replaced as a whole or not at all; after an error nothing is written.
    """

    def __init__(self, nlp: Language, output: Path, source: str):
        config = nlp.config.interpolate()
        if config["training"]["seed"] is not None:
            fix_random_seed(config["training"]["seed"])
        settings = registry.resolve(config["training"], schema=ConfigSchemaTraining)
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
        self.epochs: list[Any] = []  # states of ``random`` as each began, by which spaCy shuffles
        # The components that change.
        self.pipes: dict[str, Any] = {
            name: pipe
            for name, pipe in nlp.pipeline
            if name not in settings["frozen_components"]
            and getattr(pipe, "is_trainable", False)
            and pipe.model not in (True, False, None)
        }
        self.score = create_evaluation_callback(nlp, dev_corpus, settings["score_weights"])
        rate = settings["dropout"]
        self.dropouts = constant(rate) if isinstance(rate, float) else rate
        self.progress = RunProgress()

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether the optimizer's state can be kept: that of torch's weights in AdamW can."""
        return isinstance(self.optimizer, AdamW) and not self.optimizer.mom1

    @property
    def trainers(self) -> dict[str, Trainer]:
        """The trainers of the linkers. A linker has none outside a training session."""
        trainers = {name: getattr(pipe, "trainer", None) for name, pipe in self.pipes.items()}
        return {name: trainer for name, trainer in trainers.items() if trainer is not None}

    def run(self) -> Iterator[dict[str, Any]]:
        """Train to the end, and yield the lines of a log; errors are those of ``run_training``."""
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
        """Go on from a checkpoint of the same config, to the same end as without a break."""
        self.progress = RunProgress(**facts["progress"])
        self.nlp.meta["performance"] = facts["performance"]
        for string in facts["strings"]:  # evaluations add some, such as ids
            self.nlp.vocab.strings.add(string)
        first = None
        for _ in range(self.progress.step + 1):  # this reads the corpus as far
            if len(self.epochs) < len(facts["epochs"]):
                _set_python_random(facts["epochs"][len(self.epochs)])
            _, batch = self._next_batch()
            first = first or batch
            self.optimizer.step_schedules()
            next(self.dropouts)
        # Linkers that were taken from another pipeline make their trainers of the first examples:
        # now, while numpy's random numbers are those of the beginning.
        for pipe in self.pipes.values():
            if hasattr(pipe, "trainer") and pipe.trainer is None:
                pipe.prepare_training(self._parts(first)[0])
        models = self._models()
        for name, model in models.items():
            model.from_bytes(tensors[f"weights/{name}"].numpy().tobytes())
        for name, trainer in self.trainers.items():
            # Before the optimizer, as a trainer may freeze weights.
            trainer.restore(facts["trainers"][name])
        for name, model in models.items():
            self.optimizer.load_state_dict(model, under(f"optimizer/{name}/", tensors))
        _set_python_random(facts["random"]["python"])
        np.random.set_state(tuple(facts["random"]["numpy"]))
        torch.set_rng_state(tensors["random/torch"])
        if torch.cuda.is_available() and "random/cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random/cuda"])

    def _next_batch(self) -> tuple[int, list[Example]]:
        """The next batch, after the number of its epoch."""
        state = random.getstate()
        epoch, batch = next(self.batches)
        if epoch == len(self.epochs):
            self.epochs.append(state)
        return epoch, list(batch)

    def _update(self, batch: list[Example]) -> dict[str, Any]:
        """Do one step, and give its line of the log.

        ``loss`` and ``adversarial`` are means over the parts of the batch (``accumulate_gradient``).
        ``gradient_norm`` is that before clipping; None for another optimizer than AdamW. ``mentions``
        and ``mentions_per_second`` are of this step. ``seconds`` are of all steps so far, without
        evaluations.
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
                    sgd=False,
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
        """The parts of a batch, which are learned from one after the other before one update."""
        return list(subdivide_batch(batch, self.settings["accumulate_gradient"]))

    def _models(self) -> dict[str, Model]:
        """The models that change. That of a linker is the one that its trainer trains."""
        trainers = self.trainers
        return {name: trainers.get(name, pipe).model for name, pipe in self.pipes.items()}

    def _evaluate(self, batch: list[Example]) -> dict[str, Any]:
        """Score dev and save the pipeline: the line of the log. Errors name the batch, the last one."""
        with self._placing_errors(batch, "evaluation after "):
            with self.nlp.use_params(self.optimizer.averages):
                score, scores = self.score()
        decisive = [name for name, weight in self.settings["score_weights"].items() if weight]
        if decisive and all(scores.get(name) is None for name in decisive):
            raise PelError(
                f"dev has no {' or '.join(decisive)}, so no pipeline is better than another",
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
        """Errors get the step and the documents (ids, or beginnings) where they are met."""
        try:
            yield
        except PelError as error:
            docs = [example.reference for example in batch]
            names = ", ".join(str(doc.user_data.get("id") or repr(doc.text[:30])) for doc in docs)
            placed = error.at(f"{before}step {self.progress.step}, documents {names}")
            remedy = f"{error.remedy}; what was saved before has not changed"
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
        # Before the random states, as this encodes indexes.
        trainers = {name: trainer.state() for name, trainer in self.trainers.items()}
        tensors = {"random/torch": torch.get_rng_state()}
        if torch.cuda.is_available():
            tensors["random/cuda"] = torch.cuda.get_rng_state()
        for name, model in self._models().items():
            weights = bytearray(model.to_bytes())
            tensors[f"weights/{name}"] = torch.frombuffer(weights, dtype=torch.uint8)
            for key, state in self.optimizer.state_dict(model).items():
                tensors[f"optimizer/{name}/{key}"] = state.detach().cpu().contiguous()
        kind, keys, *rest = np.random.get_state()
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
    """Write the file (safetensors), and only then replace the one at the path.

    PelError: safetensors cannot write the file. OSError: the system cannot write or replace it.
    """
    metadata = signed({"facts": json.dumps(facts)}, tensors)  # as a text, whose order stays
    try:
        with whole_file(path, "xb") as file:
            save_file(tensors, file.name, metadata=metadata)
    except SafetensorError as error:
        raise PelError(
            f"{path}: cannot be written ({error})", "make space on its disk and go on with --resume"
        ) from error


def load_checkpoint(path: Path) -> Checkpoint:
    """What ``save_checkpoint`` wrote; PelError if the file is no checkpoint, or damaged."""
    try:
        facts, tensors = read_signed(path)
        return json.loads(facts["facts"]), tensors
    except DAMAGE as error:
        raise PelError(
            f"{path}: is not a checkpoint, or it is damaged ({error})",
            "remove it to train from the beginning",
        ) from error


def _set_python_random(state: list) -> None:
    """Set ``random`` to a state that was written as JSON and read again."""
    version, keys, gauss = state
    random.setstate((version, tuple(keys), gauss))


@dataclass
class RunProgress:
    """How far a training is, as plain data."""

    step: int = -1  # the last one; the first is 0, as in spaCy
    epoch: int = 0  # of the last step
    results: list[list] = field(default_factory=list)  # score and step of evaluations
    losses: dict[str, float] = field(default_factory=dict)  # since the last one, by component
    seconds: float = 0.0  # that the steps took, without evaluations
    log_size: int = 0  # of the log until the last checkpoint, in bytes

    def is_over(self, patience: int, max_steps: int) -> bool:
        """Whether to stop, as spaCy decides it. A setting of 0 never stops it."""
        if not self.results:
            return False
        _, best = max((score, -step) for score, step in self.results)  # the earliest of equals
        no_gain = bool(patience) and self.step + best >= patience
        return no_gain or bool(max_steps) and self.step >= max_steps

    def note_score(self, score: float) -> bool:
        """Note the score of an evaluation after the last step: whether none was higher."""
        self.results.append([score, self.step])
        return score == max(self.results)[0]
