"""``self_supervised.cfg`` trains on mentions that were mined, with any mix of losses and corpora."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy
from spacy.util import load_config

from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.kb.readers import open_source
from spacy_pel.tasks.mining.mine_mentions import mine_mentions
from spacy_pel.tasks.mining.name_table import name_table
from spacy_pel.tasks.mining.sampled_mentions import MentionSearch
from spacy_pel.tasks.train_pipeline import run_training, start_training

from .test_align_config import ENCODER


@pytest.fixture
def mined(project: Path, tmp_path: Path) -> tuple[KnowledgeBase, Path]:
    kb = build_kb(open_source("assets/demo/umls").entities, tmp_path / "kb")
    names = name_table(kb, kb.numbers().tolist(), aliases=True)
    out = tmp_path / "mined.parquet"
    result = mine_mentions(MentionSearch(kb, names), ["assets/demo/corpus/train.pubtator"], out)
    assert result.right == result.judged > 20
    return kb, out


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"components.proxy_linker.loss": {"@losses": "spacy-pel.ProxyLoss.v1"}},
        {
            "components.proxy_linker.row_kind": "entity",
            "components.proxy_linker.model.shared": False,
        },
    ],
)
def test_it_trains(mined: tuple[KnowledgeBase, Path], tmp_path: Path, changes: dict) -> None:
    kb, path = mined
    overrides = {
        "paths.kb": str(kb.path),
        "paths.train": [str(path), "assets/demo/corpus/train.pubtator"],
        "paths.dev": str(path),
        "components.proxy_linker.model.encoder": ENCODER,
        "corpora.dev.limit": 20,
        "training.max_steps": 2,
        "training.eval_frequency": 2,
        "training.batcher.size": 16,
        **changes,
    }
    config = load_config("configs/self_supervised.cfg", overrides=overrides, interpolate=False)
    run_training(start_training(config, tmp_path / "out"))
    linker = spacy.load(tmp_path / "out" / "model-last").get_pipe("proxy_linker")
    assert linker.retriever and linker.pair_loss.scale == 32
