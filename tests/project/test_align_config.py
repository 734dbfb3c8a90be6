"""``align.cfg`` trains without annotations, and says what it learns from names that it does not see."""

from __future__ import annotations

import json
from pathlib import Path

import spacy
from spacy.util import load_config

from spacy_pel.kb import build_kb
from spacy_pel.kb.readers import open_source
from spacy_pel.training.loop import run_training, start_training

ENCODER = {
    **{"@misc": "spacy-pel.ScratchEncoder.v1", "layers": 1, "width": 32, "heads": 2},
    **{"vocab_size": 500, "max_tokens": 64},
}


def test_it_trains(project: Path, tmp_path: Path) -> None:
    kb = build_kb(open_source("assets/demo/umls").entities, tmp_path / "kb").path
    overrides = {
        "paths.kb": str(kb),
        "components.proxy_linker.model.encoder": ENCODER,
        "training.max_steps": 2,
        "training.eval_frequency": 2,
        "training.batcher.size": 8,
    }
    config = load_config("configs/align.cfg", overrides=overrides, interpolate=False)
    run_training(start_training(config, tmp_path / "out"))
    lines = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").open()]
    recall = [line["scores"]["nel_recall_at_1"] for line in lines if "scores" in line]
    assert recall and all(0 < score < 1 for score in recall)  # a name does not find itself
    assert spacy.load(tmp_path / "out" / "model-best").get_pipe("proxy_linker").retriever
