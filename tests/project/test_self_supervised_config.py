"""``self_supervised.cfg`` trains on mentions that were mined, with any mix of losses and corpora."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import load_config

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.jobs.embed import embed_kb
from spacy_pel.jobs.mine import MentionSearch, mine_mentions
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.kb.name_finder import NameFinder
from spacy_pel.kb.readers import open_source
from spacy_pel.training.loop import run_training, start_training

from .test_align_config import ENCODER


@pytest.fixture
def mined(project: Path, tmp_path: Path) -> tuple[KnowledgeBase, Path]:
    kb = build_kb(open_source("assets/demo/umls").entities, tmp_path / "kb")
    out = tmp_path / "mined.parquet"
    search = MentionSearch(kb, NameFinder.of(kb), aliases=True)
    result = mine_mentions(search, ["assets/demo/corpus/train.pubtator"], out)
    assert result.right == result.judged > 20
    return kb, out


PAIRS = {
    "components.proxy_linker.pair_loss": {"@losses": "spacy-pel.MentionPairLoss.v1", "scale": 32}
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {**PAIRS, "components.proxy_linker.loss": None},
        {**PAIRS, "components.proxy_linker.loss": {"@losses": "spacy-pel.ProxyLoss.v1"}},
        {
            **PAIRS,
            "components.proxy_linker.row_kind": "entity",
            "components.proxy_linker.model.shared": False,
        },
    ],
)
def test_it_trains(mined: tuple[KnowledgeBase, Path], tmp_path: Path, changes: dict) -> None:
    kb, path = mined
    overrides = {
        "paths.train": [str(path), "assets/demo/corpus/train.pubtator"],
        "components.proxy_linker.model.encoder": ENCODER,
        **changes,
    }
    nlp = trained("self_supervised", mined, tmp_path / "out", overrides)
    linker = nlp.get_pipe("proxy_linker")
    assert linker.retriever and bool(linker.pair_loss) == ("pair_loss" in "".join(changes))


def test_its_reranker_changes_the_order(mined: tuple[KnowledgeBase, Path], tmp_path: Path) -> None:
    kb, path = mined
    encoder = {"components.proxy_linker.model.encoder": ENCODER}
    retriever = trained("self_supervised", mined, tmp_path / "retriever", encoder)
    linker = retriever.get_pipe("proxy_linker")
    embed_kb(kb.path, linker)
    settings = {
        "paths.retriever": str(tmp_path / "retriever" / "model-last"),
        "training.optimizer.learn_rate.initial_rate": 0.01,
        "training.optimizer.learn_rate.warmup_steps": 0,
    }
    nlp = trained("self_supervised_rerank", mined, tmp_path / "reranker", settings, steps=4)
    log = (tmp_path / "reranker" / "log.jsonl").read_text("utf8").splitlines()
    counts = [json.loads(line)["counts"] for line in log if "counts" in line][-1]
    assert counts["mention_inputs"] > 30 and counts["pair_inputs"] > 4 * counts["mention_inputs"]
    reranking = nlp.get_pipe("proxy_linker")
    assert reranking.retriever.fingerprint() == linker.retriever.fingerprint()
    reranking.sole_owners_first = False  # the scores alone decide
    examples = list(islice(open_corpus(path)(nlp), 40))
    ranked = [nlp(example.predicted.copy()) for example in examples]
    reranking.rerank = 0
    plain = [nlp(example.predicted.copy()) for example in examples]
    assert orders(ranked) != orders(plain)
    assert [set(ids) for ids in orders(ranked, 8)] == [set(ids) for ids in orders(plain, 8)]


def orders(docs: list[Doc], k: int = 64) -> list[list[str]]:
    """The ids of the first candidates of each mention."""
    return [span._.kb_candidate_columns["id"][:k] for doc in docs for span in doc.ents]


def trained(
    name: str,
    mined: tuple[KnowledgeBase, Path],
    output: Path,
    changes: dict[str, Any],
    steps: int = 2,
) -> Language:
    """The pipeline that a config trains in a few steps."""
    kb, path = mined
    overrides = {
        "paths.kb": str(kb.path),
        "paths.train": str(path),
        "paths.dev": str(path),
        "corpora.dev.limit": 20,
        "training.max_steps": steps,
        "training.eval_frequency": steps,
        "training.batcher.size": 16,
        **changes,
    }
    config = load_config(f"configs/{name}.cfg", overrides=overrides, interpolate=False)
    run_training(start_training(config, output))
    return spacy.load(output / "model-last")
