"""The components that a training changes, and what is to be known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from spacy.language import Language
from thinc.api import Model

from .counts import Counts
from .objective import StepLoss
from .trainer import Trainer

Pipes = Mapping[str, Any]


def trained_pipes(nlp: Language, frozen: list[str]) -> Pipes:
    """The components that spaCy's loop updates, by name."""
    return {
        name: pipe
        for name, pipe in nlp.pipeline
        if name not in frozen
        and getattr(pipe, "is_trainable", False)
        and pipe.model not in (True, False, None)
    }


def trainers_of(pipes: Pipes) -> dict[str, Trainer]:
    """The trainers of the linkers among them; a linker has none outside a training session."""
    trainers = {name: getattr(pipe, "trainer", None) for name, pipe in pipes.items()}
    return {name: trainer for name, trainer in trainers.items() if trainer is not None}


def trained_models(pipes: Pipes) -> dict[str, Model]:
    """The models that change: of a linker the one that its trainer trains."""
    trainers = trainers_of(pipes)
    return {
        name: trainers[name].model if name in trainers else pipe.model
        for name, pipe in pipes.items()
    }


def counts_of(pipes: Pipes) -> dict[str, int]:
    """What has been done so far, in all linkers together."""
    counts = [asdict(trainer.counts) for trainer in trainers_of(pipes).values()]
    return {field: sum(one[field] for one in counts) for field in asdict(Counts())}


def loss_of(pipes: Pipes) -> StepLoss:
    """The sum over all steps so far and all linkers."""
    losses = [trainer.total_loss for trainer in trainers_of(pipes).values()]
    return StepLoss(*(sum(parts) for parts in zip(StepLoss(0.0, 0.0), *losses)))
