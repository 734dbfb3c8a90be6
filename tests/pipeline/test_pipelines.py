import json
import shutil
from pathlib import Path

import pytest
import spacy

from spacy_pel.errors import PelError
from spacy_pel.pipeline.pipelines import load_pipeline

from ..conftest import run_python


def refusal(path: Path) -> str:
    with pytest.raises(PelError) as caught:
        load_pipeline(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("spacy-pel.BiEncoder.v1", "spacy-pel.Nope.v1", "find function 'spacy-pel.Nope.v1'"),
        ('factory = "proxy_linker"', 'factory = "proxy_linke"', "Can't find factory for"),
        ("candidates = 8", 'candidates = "many"', "proxy_linker -> candidates"),
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


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b"{}", b"[" * 100_000])
def test_a_damaged_reference_to_the_kb_is_named(tmp_path: Path, content: bytes) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("kb_matcher")
    nlp.to_disk(tmp_path)
    (tmp_path / "kb_matcher" / "kb.json").write_bytes(content)
    with pytest.raises(PelError, match=r"kb_matcher/kb\.json: is damaged"):
        spacy.load(tmp_path)


LOAD = """
import sys
import spacy
from spacy_pel.pipeline.pipelines import load_pipeline
nlp = HOW
assert "proxy_linker" in nlp.pipe_names
assert "transformers" not in sys.modules
if POINTS.select(name="transformer"):
    assert nlp.has_factory("transformer")
    assert nlp.get_factory_meta("transformer").factory == "transformer"
assert not nlp.has_factory("transforme")
"""


@pytest.mark.parametrize("how", ["load_pipeline(sys.argv[1])", "spacy.load(sys.argv[1])"])
def test_the_components_of_other_packages_are_imported_if_named(tiny_folder, tmp_path, how) -> None:
    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    callback = '{"@callbacks": "spacy-pel.import_named_factories.v1"}'
    nlp = load_pipeline(copy)
    if how.startswith("spacy"):
        nlp.config["nlp"]["before_creation"] = json.loads(callback)
        nlp.to_disk(copy)
    points = 'from importlib.metadata import entry_points\nPOINTS = entry_points(group="spacy_factories")'
    run_python(points + LOAD.replace("HOW", how), str(copy))
