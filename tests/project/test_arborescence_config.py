"""``arborescence.cfg`` trains mentions against mentions, by any of its positives and losses."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy
from spacy.util import load_config

from spacy_pel.kb import build_kb
from spacy_pel.kb.readers import open_source
from spacy_pel.training.loop import run_training, start_training

from .test_align_config import ENCODER


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "components.proxy_linker.coreference.among": "random",
            "components.proxy_linker.loss": {"@losses": "spacy-pel.ProxyLoss.v1"},
            "components.proxy_linker.row_kind": "entity",
            "components.proxy_linker.model.shared": False,
        },
    ],
)
def test_it_trains(project: Path, tmp_path: Path, changes: dict) -> None:
    build_kb(open_source("assets/demo/umls").entities, tmp_path / "kb")
    overrides = {
        "paths.kb": str(tmp_path / "kb"),
        "corpora.train.path": "assets/demo/corpus/train.pubtator",
        "corpora.dev.path": "assets/demo/corpus/dev.pubtator",
        "components.proxy_linker.model.encoder": ENCODER,
        "corpora.dev.limit": 3,
        "training.max_steps": 2,
        "training.eval_frequency": 2,
        "training.batcher.size": 16,
        **changes,
    }
    config = load_config("configs/arborescence.cfg", overrides=overrides, interpolate=False)
    run_training(start_training(config, tmp_path / "out"))
    linker = spacy.load(tmp_path / "out" / "model-last").get_pipe("proxy_linker")
    assert linker.retriever and linker.coreference.negatives == 5
