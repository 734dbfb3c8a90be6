"""spaCy's training loop, step for step, with checkpoints from which a training goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.training import Example
from spacy.training.loop import (
    DIR_MODEL_BEST,
    DIR_MODEL_LAST,
    create_before_to_disk_callback,
    create_evaluation_callback,
    create_train_batches,
    subdivide_batch,
    update_meta,
)
from spacy.util import registry, resolve_dot_names
from thinc.api import constant, fix_random_seed

from ..errors import PelError
from ..system.whole_files import whole_folder
from .checkpoint import Checkpoint, random_states, save_checkpoint, set_random_states
from .optimizer import AdamW
from .process_memory import peak_memory_mb
from .run_progress import ResumableBatches, RunProgress
from .trained_pipes import TrainedPipes

CHECKPOINT = "checkpoint.safetensors"


class TrainingRun:
    """The training of an initialised pipeline, by the ``[training]`` block of its config.

    The weights are those of ``spacy train`` with the same config and seed. In addition, the output
    folder gets a checkpoint at every evaluation. Each file or folder in it is replaced as a whole
    or not at all, and nothing is written after an error.

    Args:
        nlp: the pipeline, from ``spacy.training.initialize.init_nlp``.
        output: the folder for "model-best", "model-last" and the checkpoint.
        source: the config as the user gave it. The checkpoint keeps it.
    """

    def __init__(self, nlp: Language, output: Path, source: str):
        config = nlp.config.interpolate()
        if config["training"]["seed"] is not None:
            fix_random_seed(config["training"]["seed"])
        settings = registry.resolve(config["training"], schema=ConfigSchemaTraining)
        train_corpus, dev_corpus = resolve_dot_names(
            config, [settings["train_corpus"], settings["dev_corpus"]]
        )
        self.nlp = nlp
        self.output = output
        self.source = source
        self.settings = settings
        self.optimizer = settings["optimizer"]
        self.batches = ResumableBatches(
            create_train_batches(nlp, train_corpus, settings["batcher"], settings["max_epochs"])
        )
        self.pipes = TrainedPipes(nlp, settings["frozen_components"])
        self.score = create_evaluation_callback(nlp, dev_corpus, settings["score_weights"])
        rate = settings["dropout"]
        self.dropouts = constant(rate) if isinstance(rate, float) else rate
        self.progress = RunProgress()

    @property
    def expected_steps(self) -> int | None:
        """The number of steps if training is not stopped early; None if it is not known yet."""
        if self.settings["max_steps"]:
            return self.settings["max_steps"] + 1
        if self.settings["max_epochs"] > 0 and self.progress.epoch:
            return self.settings["max_epochs"] * self.batches.first_of_epochs[1]
        return None

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether the optimizer's state can be kept: that of torch's weights in AdamW can."""
        return isinstance(self.optimizer, AdamW) and not self.optimizer.mom1

    def run(self) -> Iterator[dict[str, Any]]:
        """Train to the end.

        Yields:
            The lines of a log: one for each step, and one for each evaluation.

        Raises:
            PelError: a loss or a gradient is not finite. The error names the step and its
                documents.
        """
        progress, settings = self.progress, self.settings
        while not progress.is_over(settings["patience"], settings["max_steps"]):
            try:
                progress.epoch, batch = next(self.batches)
            except StopIteration:  # max_epochs
                break
            progress.step += 1
            yield self._update(batch)
            if progress.step % settings["eval_frequency"] == 0:
                yield self._evaluate(batch)
                self._save_checkpoint(finished=False)
        self._save_pipeline(is_best=False)
        self._save_checkpoint(finished=True)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint of the same config, to the same end as without a break."""
        facts = checkpoint.facts
        self.progress.restore(facts)
        self.nlp.meta["performance"] = facts["performance"]
        for string in facts["strings"]:  # evaluations add some, such as ids
            self.nlp.vocab.strings.add(string)
        n_steps = self.progress.step + 1
        self.progress.epoch, first = self.batches.skip(n_steps, facts["epochs"])
        # Now, while the random numbers are those of the beginning.
        self.pipes.make_missing_trainers(next(iter(self._subbatches(first)), []))
        for _ in range(n_steps):
            self.optimizer.step_schedules()
            next(self.dropouts)
        self.pipes.restore(checkpoint, self.optimizer)
        set_random_states(Checkpoint(checkpoint.tensors_under("random/"), facts["random"]))

    def _update(self, batch: list[Example]) -> dict[str, Any]:
        """Do one step.

        Returns:
            Its line of the log. ``loss`` and ``adversarial`` are means over the parts of the batch
            (``accumulate_gradient``). ``gradient_norm`` is the norm before clipping; None for
            another optimizer than AdamW. ``mentions`` and ``mentions_per_second`` are of this
            step. ``seconds`` and ``counts`` (see ``WorkCounts``) are of all steps so far, without
            evaluations. ``memory_mb`` is the most so far.
        """
        started, loss = perf_counter(), self.pipes.total_loss
        mentions = self.pipes.counts.mentions
        learn_rate = self.optimizer.learn_rate
        subbatches = self._subbatches(batch)
        try:
            self._learn(subbatches)
        except PelError as error:
            raise self._placed(batch, error) from error
        self.optimizer.step_schedules()
        took = perf_counter() - started
        self.progress.seconds += took
        counts, now = self.pipes.counts, self.pipes.total_loss
        mentions = counts.mentions - mentions
        return {
            "step": self.progress.step,
            "epoch": self.progress.epoch,
            "loss": (now.clean - loss.clean) / max(1, len(subbatches)),
            "adversarial": (now.adversarial - loss.adversarial) / max(1, len(subbatches)),
            "learn_rate": learn_rate,
            "gradient_norm": getattr(self.optimizer, "last_norm", None),
            "mentions": mentions,
            "mentions_per_second": mentions / took,
            "seconds": self.progress.seconds,
            "counts": asdict(counts),
            "memory_mb": peak_memory_mb(),
        }

    def _subbatches(self, batch: list[Example]) -> list[list[Example]]:
        """The parts of a batch, which are learned from one after the other before one update."""
        return list(subdivide_batch(batch, self.settings["accumulate_gradient"]))

    def _learn(self, subbatches: list[list[Example]]) -> None:
        """Learn from each part of a batch, and update the weights once."""
        settings = self.settings
        if settings["before_update"]:
            position = {"step": self.progress.step, "epoch": self.progress.epoch}
            settings["before_update"](self.nlp, position)
        drop = next(self.dropouts)
        for subbatch in subbatches:
            self.nlp.update(
                subbatch,
                drop=drop,
                losses=self.progress.losses,
                sgd=False,
                exclude=settings["frozen_components"],
                annotates=settings["annotating_components"],
            )
        self.pipes.finish_update(self.optimizer)

    def _evaluate(self, batch: list[Example]) -> dict[str, Any]:
        """Score dev and save the pipeline.

        Args:
            batch: that of the last step, which errors name.

        Returns:
            The line of the log.
        """
        try:
            with self.nlp.use_params(self.optimizer.averages):
                score, scores = self.score()
        except PelError as error:
            raise self._placed(batch, error, "evaluation after ") from error
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
        numbers = {key: value for key, value in scores.items() if isinstance(value, (int, float))}
        return {
            "step": self.progress.step,
            "score": score,
            "is_best": is_best,
            "scores": numbers,
            "counts": asdict(self.pipes.counts),
        }

    def _placed(self, batch: list[Example], error: PelError, before: str = "") -> PelError:
        """The error with the step and the documents where it was met."""
        placed = error.at(f"{before}step {self.progress.step}, documents {_names(batch)}")
        return PelError(placed.problem, f"{error.remedy}; what was saved before has not changed")

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
        trainers = self.pipes.trainer_states()  # before the random states: indexes are encoded
        random = random_states()
        tensors = {f"random/{name}": state for name, state in random.tensors.items()}
        facts = {
            "config": self.source,
            "finished": finished,
            **self.progress.facts(),
            "performance": self.nlp.meta.get("performance", {}),
            "strings": sorted(self.nlp.vocab.strings),
            "epochs": self.batches.random_states,
            "random": random.facts,
            "trainers": trainers,
        }
        tensors |= self.pipes.tensors(self.optimizer)
        save_checkpoint(self.output / CHECKPOINT, Checkpoint(tensors, facts))


def _names(batch: list[Example]) -> str:
    """The ids of the documents, or the beginnings of their texts."""
    docs = [example.reference for example in batch]
    return ", ".join(str(doc.user_data.get("id") or repr(doc.text[:30])) for doc in docs)
