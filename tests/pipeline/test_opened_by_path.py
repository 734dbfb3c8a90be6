"""A trained linker in another pipeline: sourced, or opened by the path of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import spacy
import srsly

from spacy_pel.architectures import TrainedEncoder
from spacy_pel.errors import PelError
from spacy_pel.jobs.embed import embed_kb
from spacy_pel.kb import Entity, build_kb

from ..conftest import ENTITIES
from .conftest import Trained, examples, linked


def test_sourced_from_a_trained_pipeline(trained: Trained, expected, tmp_path: Path) -> None:
    source = spacy.load(trained.path)
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker", source=source)
    assert linked(nlp) == expected
    nlp.to_disk(tmp_path)
    assert linked(spacy.load(tmp_path)) == expected


@pytest.mark.parametrize("component", ["", "proxy_linker"])
def test_opened_by_its_path(trained: Trained, expected, component: str) -> None:
    nlp = spacy.blank("en")
    config = {"path": str(trained.path / component), "candidates": 5}
    linker = nlp.add_pipe("proxy_linker", config=config)
    assert linked(nlp) == expected
    assert linker.fitted == trained.nlp.get_pipe("proxy_linker").fitted


def test_opened_by_the_name_of_a_package(
    trained: Trained, expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = {"lang": "en", "name": "installed_linker", "version": "1.2.0"}
    package = tmp_path / "en_installed_linker"
    shutil.copytree(trained.path, package / "en_installed_linker-1.2.0")
    srsly.write_json(package / "meta.json", meta)
    (package / "__init__.py").touch()
    about = tmp_path / "en_installed_linker-1.2.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: en_installed_linker\nVersion: 1.2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker", config={"path": "en_installed_linker", "candidates": 5})
    assert linked(nlp) == expected
    make = TrainedEncoder("en_installed_linker")
    assert (
        make([]).tokenizer.get_vocab()
        == TrainedEncoder(str(trained.path))([]).tokenizer.get_vocab()
    )


def test_opened_saved_and_loaded_without_the_original(
    trained: Trained, expected, tmp_path: Path
) -> None:
    shutil.copytree(trained.path, tmp_path / "original")
    nlp = spacy.blank("en")
    config = {"path": str(tmp_path / "original"), "candidates": 5}
    nlp.add_pipe("proxy_linker", config=config)
    nlp.to_disk(tmp_path / "copy")
    shutil.rmtree(tmp_path / "original")
    assert linked(spacy.load(tmp_path / "copy")) == expected


def test_opened_with_a_kb_of_its_own(trained: Trained, tmp_path: Path) -> None:
    original = trained.nlp.get_pipe("proxy_linker")
    other = build_kb([Entity("Z1", "liver cyst"), Entity("Z2", "lung pain")], tmp_path / "kb")
    embed_kb(other.path, original)
    nlp = spacy.blank("en")
    config = {"path": str(trained.path), "kb": str(other.path)}
    nlp.add_pipe("proxy_linker", config=config)
    nlp.to_disk(tmp_path / "pipeline")
    for pipeline in (nlp, spacy.load(tmp_path / "pipeline")):
        assert {id for id, *_ in linked(pipeline)} <= {"Z1", "Z2"}


def test_what_was_saved_does_not_follow_what_is_opened(trained: Trained, tmp_path: Path) -> None:
    original = tmp_path / "original"
    shutil.copytree(trained.path, original)
    opened = spacy.blank("en")
    opened.add_pipe("proxy_linker", config={"path": str(original)})
    opened.to_disk(tmp_path / "saved")
    other = build_kb(ENTITIES, tmp_path / "other").path
    changed = spacy.blank("en")
    changed.add_pipe("proxy_linker", config={"path": str(trained.path), "kb": str(other)})
    shutil.rmtree(original)
    changed.to_disk(original)
    assert spacy.load(tmp_path / "saved").get_pipe("proxy_linker").kb.path == trained.kb
    assert spacy.load(original).get_pipe("proxy_linker").kb.path == other


def test_opened_by_its_path_whatever_its_name(trained: Trained, expected, tmp_path: Path) -> None:
    named = spacy.blank("en")
    config = {"path": str(trained.path)}
    named.add_pipe("proxy_linker", name="scispacy_linker", config=config)
    named.to_disk(tmp_path)
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker", config={"path": str(tmp_path), "candidates": 5})
    assert linked(nlp) == expected


def test_a_relative_kb_is_the_same_after_a_change_of_folder(
    trained: Trained, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(trained.kb.parent)
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("proxy_linker", config={"path": str(trained.path), "kb": trained.kb.name})
    monkeypatch.chdir(tmp_path)
    assert linker.kb.path == trained.kb
    nlp.to_disk(tmp_path / "saved")
    assert spacy.load(tmp_path / "saved").get_pipe("proxy_linker").kb.path == trained.kb


def test_a_path_that_is_not_there_is_named_at_first_use(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker", config={"path": str(tmp_path / "none")})
    with pytest.raises(PelError, match=f"no trained linker at {tmp_path}/none"):
        linked(nlp)


def test_a_path_without_a_linker_is_refused(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path)
    with pytest.raises(PelError, match=f"no trained linker in {tmp_path}; give the folder of"):
        spacy.blank("en").add_pipe("proxy_linker", config={"path": str(tmp_path)})


def test_an_opened_linker_is_not_initialised_anew(trained: Trained) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker", config={"path": str(trained.path)})
    with pytest.raises(PelError, match='already trained.* as its "source"'):
        nlp.initialize(lambda: examples(nlp))
