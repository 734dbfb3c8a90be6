"""spaCy's training loop, step for step, with checkpoints to go on from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
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
from .batches import Batches
from .checkpoint import Checkpoint, random_states, save_checkpoint, set_random_states
from .distributed import is_first, share
from .memory import peak_memory_mb
from .optimizer import AdamW
from .trained import counts_of, loss_of, trained_models, trained_pipes, trainers_of

CHECKPOINT = "checkpoint.safetensors"


class TrainingRun:
    """The training of an initialised pipeline, by the ``[training]`` block of its config.

    The weights are those of ``spacy train`` with the same config and seed. Besides, the folder
    gets a checkpoint at every evaluation; each thing in it is replaced whole or not at all, and
    nothing is written after an error.

    nlp: from ``spacy.training.initialize.init_nlp``. output: the folder of "model-best",
    "model-last" and the checkpoint. source: the config as it was given, which the checkpoint keeps.
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
        self.batches = Batches(
            create_train_batches(nlp, train_corpus, settings["batcher"], settings["max_epochs"])
        )
        self.pipes = trained_pipes(nlp, settings["frozen_components"])
        self.score = create_evaluation_callback(nlp, dev_corpus, settings["score_weights"])
        rate = settings["dropout"]
        self.dropouts = constant(rate) if isinstance(rate, float) else rate
        # Of the last step. The first is number 0, as in spaCy.
        self.step, self.epoch = -1, 0
        self.results: list[tuple[float, int]] = []  # (score, step) of each evaluation
        self.losses: dict[str, float] = {}  # since the last evaluation
        self.seconds = 0.0  # in steps, evaluations not counted

    @property
    def expected_steps(self) -> int | None:
        """How many steps there will be, if training is not stopped early; None: not known yet."""
        if self.settings["max_steps"]:
            return self.settings["max_steps"] + 1
        if self.settings["max_epochs"] > 0 and self.epoch:
            return self.settings["max_epochs"] * self.batches.first_of_epochs[1]
        return None

    @property
    def _decisive(self) -> list[str]:
        """The scores that make one pipeline better than another."""
        return [name for name, weight in self.settings["score_weights"].items() if weight]

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether the optimizer's state can be kept: that of torch's weights in AdamW can."""
        return isinstance(self.optimizer, AdamW) and not self.optimizer.mom1

    def run(self) -> Iterator[dict[str, Any]]:
        """Train to the end. Gives the lines of a log: one a step, one more an evaluation.

        Raises PelError, with step and documents, for a loss or gradients that are not finite.
        """
        while not self._is_over():
            try:
                self.epoch, batch = next(self.batches)
            except StopIteration:  # max_epochs
                break
            self.step += 1
            yield self._update(share(batch))
            if self.step % self.settings["eval_frequency"] == 0:
                yield self._evaluate(batch)
                self._save_checkpoint(finished=False)
        if is_first():
            self._save_pipeline(is_best=False)
        self._save_checkpoint(finished=True)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint of the same config, to the same end as without a break."""
        facts = checkpoint.facts
        self.step, self.seconds, self.losses = facts["step"], facts["seconds"], facts["losses"]
        self.results = [(score, step) for score, step in facts["results"]]
        self.nlp.meta["performance"] = facts["performance"]
        for string in facts["strings"]:  # evaluations add some, such as ids
            self.nlp.vocab.strings.add(string)
        self.epoch, first = self.batches.skip(self.step + 1, facts["epochs"])
        self._make_missing_trainers(share(first))
        for _ in range(self.step + 1):
            self.optimizer.step_schedules()
            next(self.dropouts)
        models = trained_models(self.pipes)
        for name, model in models.items():
            model.from_bytes(checkpoint.tensors[f"weights/{name}"].numpy().tobytes())
        for name, trainer in trainers_of(self.pipes).items():
            trainer.restore(facts["trainers"][name])  # before the optimizer: it may freeze weights
        for name, model in models.items():
            self.optimizer.load_state_dict(model, checkpoint.part(f"optimizer/{name}/"))
        set_random_states(Checkpoint(checkpoint.part("random/"), facts["random"]))

    def _make_missing_trainers(self, first: list[Example]) -> None:
        """A linker that was taken from another pipeline makes its trainer of its first examples.

        It does so now, while the random numbers are those of the beginning.
        """
        for pipe in self.pipes.values():
            if hasattr(pipe, "trainer") and pipe.trainer is None:
                parts = subdivide_batch(first, self.settings["accumulate_gradient"])
                pipe.prepare_training(next(parts, []))

    def _is_over(self) -> bool:
        if not self.results:
            return False
        patience, max_steps = self.settings["patience"], self.settings["max_steps"]
        _, best = max((score, -step) for score, step in self.results)  # the earliest of equals
        no_gain = bool(patience) and self.step + best >= patience
        return no_gain or bool(max_steps) and self.step >= max_steps

    def _update(self, batch: list[Example]) -> dict[str, Any]:
        """One step. Gives its line of the log.

        loss, adversarial: means over the parts of the batch (``accumulate_gradient``).
        gradient_norm: before clipping; None for another optimizer than AdamW. mentions,
        mentions_per_second: of this step. seconds: in all steps so far, without evaluations.
        counts: so far, see ``Counts``. memory_mb: the most so far.
        """
        started, loss = perf_counter(), loss_of(self.pipes)
        mentions = counts_of(self.pipes)["mentions"]
        learn_rate = self.optimizer.learn_rate
        parts = list(subdivide_batch(batch, self.settings["accumulate_gradient"]))
        try:
            self._learn(parts)
        except PelError as error:
            raise self._placed(batch, error) from error
        self.optimizer.step_schedules()
        took = perf_counter() - started
        self.seconds += took
        counts, now = counts_of(self.pipes), loss_of(self.pipes)
        mentions = counts["mentions"] - mentions
        return {
            "step": self.step,
            "epoch": self.epoch,
            "loss": (now.clean - loss.clean) / max(1, len(parts)),
            "adversarial": (now.adversarial - loss.adversarial) / max(1, len(parts)),
            "learn_rate": learn_rate,
            "gradient_norm": getattr(self.optimizer, "last_norm", None),
            "mentions": mentions,
            "mentions_per_second": mentions / took,
            "seconds": self.seconds,
            "counts": counts,
            "memory_mb": peak_memory_mb(),
        }

    def _placed(self, batch: list[Example], error: PelError, before: str = "") -> PelError:
        """The error with the place where it was met."""
        placed = error.at(f"{before}step {self.step}, documents {_names(batch)}")
        return PelError(placed.problem, f"{error.remedy}; all that was saved before is as it was")

    def _learn(self, parts: list[list[Example]]) -> None:
        settings = self.settings
        if settings["before_update"]:
            settings["before_update"](self.nlp, {"step": self.step, "epoch": self.epoch})
        drop = next(self.dropouts)
        for part in parts:
            self.nlp.update(
                part,
                drop=drop,
                losses=self.losses,
                sgd=False,
                exclude=settings["frozen_components"],
                annotates=settings["annotating_components"],
            )
        for pipe in self.pipes.values():
            pipe.finish_update(self.optimizer)

    def _evaluate(self, batch: list[Example]) -> dict[str, Any]:
        """Score dev and save the pipeline. Gives the line of the log. batch: of the last step."""
        try:
            with self.nlp.use_params(self.optimizer.averages):
                score, scores = self.score()
        except PelError as error:
            raise self._placed(batch, error, "evaluation after ") from error
        if self._decisive and all(scores.get(name) is None for name in self._decisive):
            raise PelError(
                f"dev has no {' or '.join(self._decisive)}, so no pipeline is better than another",
                "check that dev and the KB use the same identifiers",
            )
        self.results.append((score, self.step))
        info = {"other_scores": scores, "losses": self.losses}
        with self.nlp.select_pipes(disable=self.settings["frozen_components"]):
            update_meta(self.settings, self.nlp, info)
        self.losses = {}
        is_best = score == max(self.results)[0]
        if is_first():
            self._save_pipeline(is_best)
        numbers = {key: value for key, value in scores.items() if isinstance(value, (int, float))}
        return {
            "step": self.step,
            "score": score,
            "is_best": is_best,
            "scores": numbers,
            "counts": counts_of(self.pipes),
        }

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
        # Of every process, as this brings indexes up to date.
        trainers = {name: trainer.state() for name, trainer in trainers_of(self.pipes).items()}
        if not is_first():
            return
        random = random_states()
        tensors = {f"random/{name}": state for name, state in random.tensors.items()}
        for name, model in trained_models(self.pipes).items():
            weights = bytearray(model.to_bytes())
            tensors[f"weights/{name}"] = torch.frombuffer(weights, dtype=torch.uint8)
            for key, state in self.optimizer.state_dict(model).items():
                tensors[f"optimizer/{name}/{key}"] = state
        facts = {
            "config": self.source,
            "finished": finished,
            "step": self.step,
            "seconds": self.seconds,
            "losses": self.losses,
            "results": self.results,
            "performance": self.nlp.meta.get("performance", {}),
            "strings": sorted(self.nlp.vocab.strings),
            "epochs": self.batches.states,
            "random": random.facts,
            "trainers": trainers,
        }
        save_checkpoint(self.output / CHECKPOINT, Checkpoint(tensors, facts))


def _names(batch: list[Example]) -> str:
    """The documents' ids, or how their texts begin."""
    docs = [example.reference for example in batch]
    return ", ".join(str(doc.user_data.get("id") or repr(doc.text[:30])) for doc in docs)
