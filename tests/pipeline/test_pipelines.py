"""A pipeline that cannot be loaded is told in one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.pipeline.pipelines import load_pipeline


@pytest.fixture
def copy(tiny_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_folder, tmp_path / "copy")


def refusal(path: Path) -> str:
    with pytest.raises(PelError) as caught:
        load_pipeline(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("spacy-pel.BiEncoder.v1", "spacy-pel.Nope.v1", "does not find"),
        ('factory = "proxy_linker"', 'factory = "proxy_linke"', "Can't find factory for"),
        ("candidates = 64", 'candidates = "many"', "proxy_linker -> candidates"),
        ('similarity = "cosine"', 'similarity = "cos"', 'unknown similarity "cos"; choose'),
        ("[nlp]", "[[nlp", "Config"),
    ],
)
def test_a_config_with_an_error(copy: Path, old: str, new: str, message: str) -> None:
    config = copy / "config.cfg"
    config.write_text(config.read_text("utf8").replace(old, new), encoding="utf8")
    assert message in refusal(copy)


def test_damaged_weights(copy: Path) -> None:
    (copy / "proxy_linker" / "model").write_bytes(b"not weights")
    message = refusal(copy)
    assert message.startswith(f"{copy / 'proxy_linker' / 'model'}: no weights of a linker")
    assert "train it again" in message


def test_a_folder_that_is_no_pipeline(tmp_path: Path) -> None:
    message = refusal(tmp_path)
    assert message.startswith(f"{tmp_path}: cannot be loaded as a pipeline")
    assert "give the folder of a trained one, such as training/model-best" in message


def test_no_folder(tmp_path: Path) -> None:
    assert "Can't find model" in refusal(tmp_path / "none")
