from pathlib import Path

import pytest
import spacy
from spacy.util import load_config

from spacy_pel.kb import build_kb
from spacy_pel.models.architectures import fingerprint

from ..conftest import contents
from ..pipeline.conftest import PROBLEM, TRAIN
from .problem import train_by_spacy, write_config

INITIALIZE = "initialize.components.proxy_linker"


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kb(PROBLEM, tmp_path_factory.mktemp("train") / "kb").path


def test_what_evaluations_search_changes_no_weights(kb: Path, tmp_path: Path) -> None:
    trained = []
    for searched in ({"searched_corpus": None, "searched_entities": 20}, {"searched_entities": 3}):
        (folder := tmp_path / str(len(trained))).mkdir()
        sizes = {f"{INITIALIZE}.{k}": v for k, v in {"mined_entities": 20, **searched}.items()}
        config = write_config(folder, kb, train=TRAIN[:9], dev=TRAIN[9:], **sizes)
        nlp = train_by_spacy(config, folder / "output")
        assert nlp.meta["performance"]["proxy_linker_loss"] > 0
        trained.append(contents(folder / "output" / "model-last")["proxy_linker/model"])
    assert trained[0] == trained[1]


def test_a_linker_of_another_pipeline_is_trained_further(kb: Path, tmp_path: Path) -> None:
    path = write_config(tmp_path, kb)
    train_by_spacy(path, tmp_path / "first")
    config = load_config(path)
    config["components"]["proxy_linker"] = {"source": str(tmp_path / "first" / "model-last")}
    config.to_disk(path)
    train_by_spacy(path, tmp_path / "second")
    first, second = (
        spacy.load(tmp_path / name / "model-last").get_pipe("proxy_linker")
        for name in ("first", "second")
    )
    assert fingerprint(first.retriever) != fingerprint(second.retriever)
    assert first.cfg["loss"] == second.cfg["loss"]  # the bias of the first batch
