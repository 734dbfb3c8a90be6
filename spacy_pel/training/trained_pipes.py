"""The components that a training changes: their models, their trainers, and how both are saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from spacy.language import Language
from spacy.training import Example
from thinc.api import Model, Optimizer

from .checkpoint import Checkpoint
from .optimizer import AdamW
from .trainer import NO_LOSS, StepLoss, Trainer, WorkCounts


class TrainedPipes:
    """The components of a pipeline that spaCy's loop updates, by name.

    Args:
        nlp: the pipeline, initialised.
        frozen: the names of components that do not change.
    """

    def __init__(self, nlp: Language, frozen: Sequence[str]):
        self._pipes: dict[str, Any] = {
            name: pipe
            for name, pipe in nlp.pipeline
            if name not in frozen
            and getattr(pipe, "is_trainable", False)
            and pipe.model not in (True, False, None)
        }

    @property
    def trainers(self) -> dict[str, Trainer]:
        """The trainers of the linkers. A linker has none outside a training session."""
        trainers = {name: getattr(pipe, "trainer", None) for name, pipe in self._pipes.items()}
        return {name: trainer for name, trainer in trainers.items() if trainer is not None}

    @property
    def models(self) -> dict[str, Model]:
        """The models that change. That of a linker is the one that its trainer trains."""
        trainers = self.trainers
        return {
            name: trainers[name].model if name in trainers else pipe.model
            for name, pipe in self._pipes.items()
        }

    @property
    def counts(self) -> WorkCounts:
        """The work done so far by all linkers together."""
        counts = [asdict(trainer.counts) for trainer in self.trainers.values()]
        return WorkCounts(**{name: sum(c[name] for c in counts) for name in asdict(WorkCounts())})

    @property
    def total_loss(self) -> StepLoss:
        """The sum over all steps so far and all linkers."""
        total = NO_LOSS
        for trainer in self.trainers.values():
            total = total.plus(trainer.total_loss)
        return total

    def finish_update(self, optimizer: Optimizer) -> None:
        """Apply the gradients that each component has accumulated."""
        for pipe in self._pipes.values():
            pipe.finish_update(optimizer)

    def make_missing_trainers(self, examples: Sequence[Example]) -> None:
        """Make the trainers of linkers that were taken from another pipeline.

        Args:
            examples: the first that the linkers learn from. Without a call of this method a linker
                makes its trainer of them by itself.
        """
        for pipe in self._pipes.values():
            if hasattr(pipe, "trainer") and pipe.trainer is None:
                pipe.prepare_training(examples)

    def trainer_states(self) -> dict[str, Any]:
        """What a checkpoint keeps of the trainers. This brings their indexes up to date."""
        return {name: trainer.state() for name, trainer in self.trainers.items()}

    def tensors(self, optimizer: AdamW) -> dict[str, torch.Tensor]:
        """What a checkpoint keeps of the models and of their optimizer."""
        tensors = {}
        for name, model in self.models.items():
            weights = bytearray(model.to_bytes())
            tensors[f"weights/{name}"] = torch.frombuffer(weights, dtype=torch.uint8)
            for key, state in optimizer.state_dict(model).items():
                tensors[f"optimizer/{name}/{key}"] = state
        return tensors

    def restore(self, checkpoint: Checkpoint, optimizer: AdamW) -> None:
        """Take models, trainers and the optimizer's state from a checkpoint."""
        models = self.models
        for name, model in models.items():
            model.from_bytes(checkpoint.tensors[f"weights/{name}"].numpy().tobytes())
        for name, trainer in self.trainers.items():
            # Before the optimizer, as a trainer may freeze weights.
            trainer.restore(checkpoint.facts["trainers"][name])
        for name, model in models.items():
            optimizer.load_state_dict(model, checkpoint.tensors_under(f"optimizer/{name}/"))
