"""A training so small that it takes a second: texts of a KB of 37 entities, and a config."""

import copy
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as spacy_train
from spacy.util import load_config, load_model_from_config, set_dot_to_object
from thinc.api import Config

from spacy_pel.models.architectures import Tower, encoder_of

from ..conftest import pubtator
from ..pipeline.conftest import TRAIN

LINKER: dict[str, Any] = {
    "candidates": 10,
    "regularizer": None,
    "model": {
        "mention_length": 24,
        "entity_length": 24,
        "encoder": {"layers": 1, "width": 16, "heads": 2, "vocab_size": 300, "max_tokens": 32},
    },
    "negatives": {
        "@misc": "spacy-pel.MixedNegatives.v1",
        **{"n": 6, "p": 0.5, "refresh": 2, "in_batch": True},
    },
}
TRAINING: dict[str, Any] = {
    **{"seed": 3, "dropout": 0.1, "accumulate_gradient": 2, "max_steps": 5},
    "eval_frequency": 2,
    "batcher": {"@batchers": "spacy.batch_by_sequence.v1", "size": 4},
    "optimizer": {
        "@optimizers": "spacy-pel.AdamW.v1",
        "learn_rate": {
            "@schedules": "warmup_linear.v1",
            **{"warmup_steps": 2, "total_steps": 8, "initial_rate": 0.01},
        },
    },
}


def write_config(folder: Path, kb: Path, train=TRAIN, dev=TRAIN[3:8], **changes: Any) -> Path:
    """A config and its corpora in the folder; changes: by the settings' full names."""
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker", config={**LINKER, "kb": str(kb)})
    config = Config(nlp.config).copy()
    config["training"].update(copy.deepcopy(TRAINING))
    config["corpora"] = {}
    for name, texts in (("train", train), ("dev", dev)):
        path = folder / f"{name}.pubtator"
        documents = (pubtator(text, ids.items(), n) for n, (text, ids) in enumerate(texts, 1))
        path.write_text("\n".join(documents), encoding="utf8")
        reader = {"@readers": "spacy-pel.DocumentCorpus.v1", "path": str(path)}
        config["corpora"][name] = reader
    searched = {"searched_entities": None, "searched_corpus": reader}
    config["initialize"] = {"components": {"proxy_linker": searched}}
    for name, value in changes.items():
        set_dot_to_object(config, name, value)
    filled = load_model_from_config(config, auto_fill=True).config
    filled.to_disk(folder / "config.cfg")
    return folder / "config.cfg"


def train_by_spacy(config: Path, output: Path, **changes: Any) -> Language:
    """What ``spacy train`` does; changes: settings by their full names."""
    output.mkdir(parents=True)
    nlp = init_nlp(load_config(config, overrides=changes, interpolate=False))
    return spacy_train(nlp, output, stdout=StringIO(), stderr=sys.stderr)[0]


def weights(tower: Tower) -> dict[str, np.ndarray]:
    """A copy of the weights of an encoder."""
    parameters = encoder_of(tower).named_parameters()
    return {name: weight.detach().numpy().copy() for name, weight in parameters}


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
