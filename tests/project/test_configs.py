"""Each config that is not the demo's: table 6 of the paper, and its first steps on small data."""

from pathlib import Path
from typing import Any

import pytest
import spacy
from papers import zeshel
from spacy.util import load_config

from spacy_pel.batch.embed import embed_kb
from spacy_pel.batch.mine import MentionSearch, mine_mentions
from spacy_pel.cli import pel
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.kb.readers import open_source
from spacy_pel.models.architectures import fingerprint

from ..conftest import ENTITIES, write_text
from ..towers import save_bert
from ..training.problem import train_by_spacy
from .downloads import document
from .papers.test_zeshel import write_zeshel

ENCODER = {
    **{"@misc": "spacy-pel.ScratchEncoder.v1", "layers": 1, "width": 16, "heads": 2},
    **{"vocab_size": 300, "max_tokens": 256},
}
LINKER = "components.proxy_linker"
CORPUS = document("1", "Aspirin for headache", "0\t7\tAspirin\tT\tC05", "12\t20\theadache\tT\tC06")
TRAIN, DEV = (f"assets/demo/corpus/{split}.pubtator" for split in ("train", "dev"))


@pytest.mark.parametrize("name", ["paper", "paper_zeshel", "paper_rerank", "paper_zeshel_rerank"])
def test_table_6(project: Path, name: str) -> None:
    reranks = name.endswith("rerank")
    published = (256, 2e-5, 0.2, 4, 5) if reranks else (128, 1e-5, 0.25, 32, 7)
    length, rate, warmup, batch, epochs = published
    config = load_config(f"configs/{name}.cfg")
    linker, training = config["components"]["proxy_linker"], config["training"]
    optimizer, schedule = training["optimizer"], training["optimizer"]["learn_rate"]
    assert (training["batcher"]["size"], training["max_epochs"]) == (batch, epochs)
    assert (optimizer["eps"], optimizer["grad_clip"]) == (1e-6, 1.0)
    assert schedule["@schedules"] == "warmup_linear.v1" and schedule["initial_rate"] == rate
    assert schedule["warmup_steps"] / schedule["total_steps"] == pytest.approx(warmup, abs=1e-3)
    assert schedule["total_steps"] == pytest.approx(epochs * training["eval_frequency"], rel=1e-3)
    assert (linker["regularizer"]["epsilon"], linker["regularizer"]["weight"]) == (0.01, 1.0)
    if reranks:
        assert (linker["reranker"]["length"], linker["rerank"]) == (length, 16)
        return
    model, negatives = linker["model"], linker["negatives"]
    assert model["mention_length"] == model["entity_length"] == length
    assert (model["shared"], model["pooling"], linker["index_unit"]) == (False, "mean", "title")
    assert (linker["loss"]["alpha"], linker["loss"]["delta"]) == (32, 0)
    assert (negatives["n"], negatives["p"]) == (32, 0.5)


def train(config: str, output: Path, changes: dict[str, Any], tower: str = "model") -> dict:
    """The scores of a training cut short; the encoder of a tower, if one is named, is a small one."""
    overrides = {
        **({f"{LINKER}.{tower}.encoder": ENCODER} if tower else {}),
        **{"training.max_steps": 2, "training.eval_frequency": 2, **changes},
    }
    scores = train_by_spacy(Path(f"configs/{config}.cfg"), output, **overrides).meta["performance"]
    assert scores["proxy_linker_loss"] > 0
    return scores


def test_first_steps_on_medmentions(project: Path, tmp_path: Path) -> None:
    kb = build_kb(ENTITIES, tmp_path / "kb").path
    for split in ("train", "dev"):
        write_text(tmp_path / f"corpora/medmentions/{split}.pubtator.txt.gz", CORPUS)
    first_steps("paper", tmp_path, {"paths.kb": str(kb), "paths.data": str(tmp_path)})


def test_first_steps_on_zeshel(project: Path, tmp_path: Path) -> None:
    published = write_zeshel(tmp_path / "zeshel")
    zeshel.main(published, tmp_path)
    worlds = sorted((tmp_path / "worlds").iterdir())
    pel(["kb", "build", *map(str, worlds), str(tmp_path / "kb")], standalone_mode=False)
    paths = {"paths.kb": str(tmp_path / "kb"), "paths.data": str(tmp_path)}
    paths["corpora.dev.path"] = str(tmp_path / "test")
    first_steps("paper_zeshel", tmp_path, paths)


def first_steps(config: str, folder: Path, paths: dict[str, str]) -> None:
    """Train a retriever and then its reranker."""
    train(config, folder / "retriever", {**paths, f"{LINKER}.negatives.n": 2})
    trained = folder / "retriever" / "model-best"
    embed_kb(Path(paths["paths.kb"]), spacy.load(trained).get_pipe("proxy_linker"))
    paths = {**paths, "paths.retriever": str(trained)}
    train(f"{config}_rerank", folder / "reranker", paths, "reranker")


def test_first_steps_on_a_transformer(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("spacy_transformers", reason="it needs an older transformers")
    corpus = tmp_path / "corpus.pubtator"
    write_text(corpus, CORPUS)
    paths = {"transformer": save_bert(tmp_path), "train": corpus, "dev": corpus}
    paths["kb"] = build_kb(ENTITIES, tmp_path / "kb").path
    changes = {f"paths.{name}": str(path) for name, path in paths.items()}
    changes |= {f"{LINKER}.freeze_entities": False, f"{LINKER}.negatives.n": 2}  # without a teacher
    train("shared", tmp_path / "out", changes)
    nlp = spacy.load(tmp_path / "out" / "model-last")
    assert nlp.pipe_names == ["transformer", "proxy_linker"]
    assert nlp.get_pipe("transformer").listening_components == ["proxy_linker"]


@pytest.fixture
def kb(project: Path, tmp_path: Path) -> KnowledgeBase:
    """The demo's."""
    return build_kb(open_source("assets/demo/umls").entities, tmp_path / "kb")


def test_align_measures_names_that_it_does_not_see(kb: KnowledgeBase, tmp_path: Path) -> None:
    changes = {"paths.kb": str(kb.path), "training.batcher.size": 8}
    scores = train("align", tmp_path / "out", changes)
    assert 0 < scores["nel_recall_at_1"] < 1  # a name does not find itself
    assert spacy.load(tmp_path / "out" / "model-best").get_pipe("proxy_linker").retriever


def test_arborescence_trains_mentions_against_mentions(kb: KnowledgeBase, tmp_path: Path) -> None:
    paths = {"paths.kb": str(kb.path), "corpora.train.path": TRAIN, "corpora.dev.path": DEV}
    few = {"corpora.train.limit": 40, "corpora.dev.limit": 3, "training.batcher.size": 16}
    train("arborescence", tmp_path / "out", {**paths, **few})
    linker = spacy.load(tmp_path / "out" / "model-last").get_pipe("proxy_linker")
    assert linker.retriever and linker.training.coreference.negatives == 5


def test_self_supervised_models_train_on_mined_mentions(kb: KnowledgeBase, tmp_path: Path) -> None:
    mined = tmp_path / "mined.parquet"
    result = mine_mentions(MentionSearch(kb, kb.name_finder(), aliases=True), [TRAIN], mined)
    assert result.kept > 20
    paths = {"paths.kb": str(kb.path), "paths.train": str(mined), "paths.dev": str(mined)}
    few = {**paths, "corpora.dev.limit": 5, "training.batcher.size": 16}
    pairs = {"@losses": "spacy-pel.MentionPairLoss.v1", "scale": 32}
    changes = {f"{LINKER}.loss": None, f"{LINKER}.pair_loss": pairs}
    changes["paths.train"] = [str(mined), TRAIN]  # annotated ones too
    train("self_supervised", tmp_path / "retriever", {**few, **changes})
    retriever = tmp_path / "retriever" / "model-last"
    linker = spacy.load(retriever).get_pipe("proxy_linker")
    assert linker.training.pair_loss
    embed_kb(kb.path, linker)
    few["paths.retriever"] = str(retriever)
    train("self_supervised_rerank", tmp_path / "reranker", few, "")
    reranking = spacy.load(tmp_path / "reranker" / "model-last").get_pipe("proxy_linker")
    assert fingerprint(reranking.retriever) == fingerprint(linker.retriever)
