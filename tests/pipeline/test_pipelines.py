"""A pipeline that cannot be loaded is told in one line."""

import shutil
from pathlib import Path

import pytest
from catalogue import RegistryError
from spacy.util import registry

from spacy_pel.errors import PelError
from spacy_pel.pipeline.pipelines import load_pipeline, unknown_names_explained


def refusal(path: Path) -> str:
    with pytest.raises(PelError) as caught:
        load_pipeline(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "old, new, message",
    [
        (
            "spacy-pel.BiEncoder.v1",
            "spacy-pel.Nope.v1",
            'find "spacy-pel.Nope.v1"; check its spelling',
        ),
        ('factory = "proxy_linker"', 'factory = "proxy_linke"', "Can't find factory for"),
        ("candidates = 64", 'candidates = "many"', "proxy_linker -> candidates"),
        ('similarity = "cosine"', 'similarity = "cos"', 'unknown similarity "cos"; choose'),
        ("[nlp]", "[[nlp", "Config"),
        (None, None, "model: damaged, or not the weights of a linker"),
    ],
)
def test_a_damaged_pipeline(tiny_folder, tmp_path, old, new, message: str) -> None:
    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    config = copy / "config.cfg"
    if old:
        config.write_text(config.read_text("utf8").replace(old, new), encoding="utf8")
    else:
        (copy / "proxy_linker" / "model").write_bytes(b"not weights")
    assert message in refusal(copy)


def test_a_folder_that_is_no_pipeline(tmp_path: Path) -> None:
    message = refusal(tmp_path)
    assert message.startswith(f"{tmp_path}: cannot be loaded as a pipeline")
    assert "give the folder of a trained one" in message
    assert "Can't find model" in refusal(tmp_path / "none")


def test_names_of_others_are_left_to_spacy() -> None:
    with pytest.raises(RegistryError, match="E893"), unknown_names_explained("here"):
        registry.get("losses", "theirs.v1")
