"""The configs of the paper: table 6, and their first steps on small data of the same shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spacy.util import load_config

from spacy_pel.cli import pel

from ..corpora.layouts import write_medmentions, write_zeshel
from ..kb.readers import umls

ENCODER = json.dumps(
    {
        **{"@misc": "spacy-pel.ScratchEncoder.v1", "layers": 1, "width": 16, "heads": 2},
        **{"vocab_size": 120, "max_tokens": 256},
    }
)
CONCEPTS = {"C1": ("Aspirin", "T109"), "C2": ("Headache", "T184"), "C3": ("Cat", "T015")}


def run(*arguments: object) -> None:
    pel([str(argument) for argument in arguments], standalone_mode=False)


def train(config: str, output: Path, tower: str, **settings: object) -> list[dict]:
    """The steps of a training cut short, whose encoder is a small one."""
    options = {
        f"components.proxy_linker.{tower}.encoder": ENCODER,
        **{"training.max_steps": 2, "training.eval_frequency": 2},
        **settings,
    }
    pairs = [part for name, value in options.items() for part in (f"--{name}", value)]
    run("train", f"configs/{config}.cfg", "--output", output, *pairs)
    lines = map(json.loads, (output / "log.jsonl").read_text().splitlines())
    return [line for line in lines if "loss" in line]


@pytest.mark.parametrize(
    ("name", "length", "rate", "warmup", "batch", "epochs"),
    [
        ("paper", 128, 1e-5, 0.25, 32, 7),
        ("paper_zeshel", 128, 1e-5, 0.25, 32, 7),
        ("paper_rerank", 256, 2e-5, 0.2, 4, 5),
        ("paper_zeshel_rerank", 256, 2e-5, 0.2, 4, 5),
    ],
)
def test_table_6(
    project: Path, name: str, length: int, rate: float, warmup: float, batch: int, epochs: int
) -> None:
    config = load_config(f"configs/{name}.cfg")
    linker, training = config["components"]["proxy_linker"], config["training"]
    optimizer = training["optimizer"]
    schedule = optimizer["learn_rate"]
    assert (training["batcher"]["size"], training["max_epochs"]) == (batch, epochs)
    assert (optimizer["eps"], optimizer["grad_clip"]) == (1e-6, 1.0)
    assert schedule["@schedules"] == "warmup_linear.v1" and schedule["initial_rate"] == rate
    assert schedule["warmup_steps"] / schedule["total_steps"] == pytest.approx(warmup, abs=1e-3)
    assert schedule["total_steps"] == pytest.approx(epochs * training["eval_frequency"], rel=1e-3)
    fgsm = linker["regularizer"]
    assert (fgsm["epsilon"], fgsm["weight"]) == (0.01, 1.0)
    if "rerank" in linker:
        assert (linker["reranker"]["length"], linker["rerank"]) == (length, 16)
        return
    model, negatives = linker["model"], linker["negatives"]
    assert model["mention_length"] == model["entity_length"] == length
    assert (model["shared"], model["pooling"], linker["row_kind"]) == (False, "mean", "title")
    assert (linker["loss"]["alpha"], linker["loss"]["delta"]) == (32, 0)
    assert (negatives["n"], negatives["p"]) == (32, 0.5)


def test_first_steps_on_umls_and_medmentions(project: Path, tmp_path: Path) -> None:
    meta, kb = tmp_path / "META", tmp_path / "kb"
    meta.mkdir()
    names = [umls.conso(cui, name, preferred=True) for cui, (name, _) in CONCEPTS.items()]
    umls.write(meta, "MRCONSO.RRF", names)
    types = [umls.sty(cui, tui, tui, "A1.4.1") for cui, (_, tui) in CONCEPTS.items()]
    umls.write(meta, "MRSTY.RRF", types)
    umls.write(meta, "MRDEF.RRF", [umls.definition("C1", "NCI", "It relieves pain.")])
    write_medmentions(tmp_path / "MedMentions")
    run("kb", "build", meta, kb, "--preset", "st21pv")

    paths = {"paths.kb": kb, "paths.data": tmp_path}
    few = {"components.proxy_linker.negatives.n": 2}
    steps = train("paper", tmp_path / "retriever", "model", **paths, **few)
    assert len(steps) == 3 and all(step["adversarial"] > 0 for step in steps)
    assert steps[0]["counts"]["index_inputs"] == len(CONCEPTS)  # of hard negatives

    trained = tmp_path / "retriever" / "model-best"
    run("kb", "embed", kb, trained)
    paths["paths.retriever"] = trained
    steps = train("paper_rerank", tmp_path / "reranker", "reranker", **paths)
    assert len(steps) == 3 and all(step["adversarial"] > 0 for step in steps)
    assert steps[-1]["counts"]["pair_inputs"] > 0


def test_first_steps_on_zeshel(project: Path, tmp_path: Path) -> None:
    zeshel = write_zeshel(tmp_path / "zeshel")
    worlds = sorted((zeshel / "documents").iterdir())
    run("kb", "build", *worlds, tmp_path / "kb")
    paths = {"paths.kb": tmp_path / "kb", "paths.data": tmp_path, "corpora.dev.split": "test"}
    few = {"components.proxy_linker.negatives.n": 2}
    steps = train("paper_zeshel", tmp_path / "retriever", "model", **paths, **few)
    assert len(steps) == 3 and steps[-1]["counts"]["entity_inputs"] > 0

    trained = tmp_path / "retriever" / "model-best"
    run("kb", "embed", tmp_path / "kb", trained)
    paths["paths.retriever"] = trained
    steps = train("paper_zeshel_rerank", tmp_path / "reranker", "reranker", **paths)
    assert len(steps) == 3 and steps[-1]["counts"]["pair_inputs"] > 0
