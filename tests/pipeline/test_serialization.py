import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spacy
import srsly
from safetensors import safe_open
from spacy.language import Language

from spacy_pel.batch.embed import embed_kb
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, build_kb
from spacy_pel.models.architectures import TrainedEncoder, encoder_of

from .conftest import CONFIG, Trained, examples, linked


@pytest.fixture(scope="module")
def calibrated(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The trained pipeline with a threshold that parts its mentions, and probabilities."""
    nlp = spacy.load(trained.path)
    linker = nlp.get_pipe("proxy_linker")
    scores = sorted(score for _, score, *_ in linked(nlp))
    linker.nil_threshold = (scores[10] + scores[11]) / 2
    path = tmp_path_factory.mktemp("calibrated") / "pipeline"
    nlp.to_disk(path)
    return Trained(nlp, path, trained.kb)


@pytest.fixture(scope="module")
def expected(calibrated: Trained) -> list[list[Any]]:
    found = linked(calibrated.nlp)
    assert {"NIL"} < {id for id, *_ in found}
    return found


def fresh(**config) -> tuple[Language, Any]:
    nlp = spacy.blank("en")
    return nlp, nlp.add_pipe("proxy_linker", config={**CONFIG, **config})


def opened(path: str | Path, **config) -> Language:
    nlp = spacy.blank("en")
    settings = {"path": str(path), "candidates": 5, "sure_probability": None}
    nlp.add_pipe("proxy_linker", config={**settings, **config})
    return nlp


def of_bytes_under_other_settings(one: Trained, folder: Path) -> Language:
    # The defaults ask for another pooling, and two towers are asked for.
    nlp, linker = fresh(model={"shared": False})
    original = one.nlp.get_pipe("proxy_linker")
    linker.from_bytes(original.to_bytes())
    assert linker.settings_of_weights() == original.settings_of_weights()
    assert linker.to_bytes() == original.to_bytes()
    return nlp


def saved_where_it_was_loaded_from(one: Trained, folder: Path) -> Language:
    one.nlp.to_disk(folder)
    nlp = spacy.load(folder)  # its weights are still in the file
    nlp.to_disk(folder)
    assert linked(nlp) == linked(one.nlp)
    return spacy.load(folder)


def moved_alone(one: Trained, folder: Path) -> Language:
    nlp = spacy.load(shutil.copytree(one.path, folder / "deep" / "er" / "pipeline"))
    assert nlp.get_pipe("proxy_linker").kb.path == one.kb
    return nlp


def with_a_kb_inside(one: Trained, folder: Path) -> Language:
    shutil.copytree(one.path, folder / "pipeline")
    inside = shutil.copytree(one.kb, folder / "pipeline" / "proxy_linker" / "kb")
    nlp = spacy.load(folder / "pipeline")
    assert nlp.get_pipe("proxy_linker").kb.path == inside
    return nlp


def opened_and_saved_without_the_original(one: Trained, folder: Path) -> Language:
    original = shutil.copytree(one.path, folder / "original")
    opened(original).to_disk(folder / "copy")
    shutil.rmtree(original)
    return spacy.load(folder / "copy")


def opened_whatever_its_name(one: Trained, folder: Path) -> Language:
    named = spacy.blank("en")
    named.add_pipe("proxy_linker", name="scispacy_linker", config={"path": str(one.path)})
    named.to_disk(folder)
    return opened(folder)


@pytest.mark.parametrize(
    "kept",
    [
        of_bytes_under_other_settings,
        saved_where_it_was_loaded_from,
        moved_alone,
        with_a_kb_inside,
        opened_and_saved_without_the_original,
        opened_whatever_its_name,
    ],
)
def test_it_is_the_same(
    calibrated: Trained, expected, tmp_path: Path, kept: Callable[[Trained, Path], Language]
) -> None:
    assert linked(kept(calibrated, tmp_path)) == expected


def test_opened_by_the_name_of_a_package(
    calibrated: Trained, expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = {"lang": "en", "name": "installed_linker", "version": "1.2.0"}
    package = tmp_path / "en_installed_linker"
    shutil.copytree(calibrated.path, package / "en_installed_linker-1.2.0")
    srsly.write_json(package / "meta.json", meta)
    (package / "__init__.py").touch()
    about = tmp_path / "en_installed_linker-1.2.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: en_installed_linker\nVersion: 1.2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert linked(opened("en_installed_linker")) == expected
    taken = TrainedEncoder("en_installed_linker")([]).tokenizer
    own = calibrated.nlp.get_pipe("proxy_linker").model.get_ref("entity")
    assert taken.to_str() == encoder_of(own).tokenizer.to_str()


def test_a_part_may_be_left_out_if_loading_is_told(trained: Trained, tmp_path: Path) -> None:
    linker = trained.nlp.get_pipe("proxy_linker")
    linker.to_disk(tmp_path / "linker", exclude=["model", "kb"])
    assert [path.name for path in (tmp_path / "linker").iterdir()] == ["cfg"]
    bare = spacy.blank("en").add_pipe("proxy_linker")
    for part in ("cfg", "model"):
        data = linker.to_bytes(exclude=[part])
        with pytest.raises(PelError, match=f'no "{part}" in these bytes'):
            bare.from_bytes(data)
        bare.from_bytes(data, exclude=[part])


def test_nothing_is_pickled_and_no_kb_is_copied(trained: Trained) -> None:
    folder = trained.path / "proxy_linker"
    assert {path.name for path in folder.iterdir()} == {"cfg", "model", "kb.json"}
    for name in ("cfg", "kb.json"):
        assert isinstance(json.loads((folder / name).read_text("utf8")), dict)
    with safe_open(folder / "model", "pt") as model:  # texts and tensors, and nothing else
        (facts,) = map(json.loads, model.metadata().values())
    (tower,) = facts["encoders"]
    assert json.loads(tower["config"]) and json.loads(tower["tokenizer"])


def test_a_threshold_named_at_loading_goes_before_the_saved_one(
    calibrated: Trained, tmp_path: Path
) -> None:
    def thresholds(nlp: Language) -> float:
        return nlp.get_pipe("proxy_linker").nil_threshold

    saved = thresholds(calibrated.nlp)
    named = {"components.proxy_linker.nil_threshold": 2.0}
    loaded = spacy.load(calibrated.path, config=named)
    for nlp in (loaded, opened(calibrated.path, nil_threshold=2.0)):
        assert thresholds(nlp) == 2.0
        assert {id for id, *_ in linked(nlp)} == {"NIL"}
    # What is set afterwards goes before what the config named back then.
    for later in (2.0, saved, None):
        loaded.get_pipe("proxy_linker").nil_threshold = later
        loaded.to_disk(tmp_path / "again")
        assert thresholds(spacy.load(tmp_path / "again")) == later


def test_opened_with_a_kb_of_its_own(trained: Trained, tmp_path: Path) -> None:
    other = build_kb([Entity("Z1", "liver cyst"), Entity("Z2", "lung pain")], tmp_path / "other")
    embed_kb(other.path, trained.nlp.get_pipe("proxy_linker"))
    original = shutil.copytree(trained.path, tmp_path / "original")
    opened(original, kb=str(other.path)).to_disk(tmp_path / "pipeline")
    opened(original).to_disk(tmp_path / "saved")
    shutil.rmtree(original)
    assert {id for id, *_ in linked(spacy.load(tmp_path / "pipeline"))} <= {"Z1", "Z2"}
    # What was saved does not follow what is opened.
    shutil.copytree(tmp_path / "pipeline", original)
    assert spacy.load(tmp_path / "saved").get_pipe("proxy_linker").kb.path == trained.kb


def test_a_relative_kb_is_found_from_any_working_directory(
    calibrated: Trained, expected, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(calibrated.kb.parent)
    nlp = spacy.load(calibrated.path)
    nlp.get_pipe("proxy_linker").set_kb("kb")
    nlp.to_disk(tmp_path / "pipeline")
    named = opened(calibrated.path, kb="kb").get_pipe("proxy_linker")
    monkeypatch.chdir(tmp_path)
    assert named.kb.path == calibrated.kb
    assert linked(spacy.load("pipeline")) == expected
    nlp, linker = fresh()
    linker.from_bytes(spacy.load("pipeline").get_pipe("proxy_linker").to_bytes())
    monkeypatch.chdir("/")
    assert linked(nlp) == expected


def test_a_kb_that_is_gone_is_named_when_it_is_needed(trained: Trained, tmp_path: Path) -> None:
    shutil.copytree(trained.kb, tmp_path / "kb")
    nlp = spacy.load(trained.path)
    nlp.get_pipe("proxy_linker").set_kb(tmp_path / "kb")
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "kb")
    lost = spacy.load(tmp_path / "pipeline")
    with pytest.raises(PelError, match=f"{tmp_path}/kb.* no knowledge base here"):
        linked(lost)


def test_a_path_without_a_linker_is_named(tmp_path: Path) -> None:
    with pytest.raises(PelError, match=f"no trained linker in {tmp_path}/none; give the folder of"):
        opened(tmp_path / "none")
    spacy.blank("en").to_disk(tmp_path)
    with pytest.raises(PelError, match=f"no trained linker in {tmp_path}; give the folder of"):
        opened(tmp_path)


def test_an_opened_linker_is_not_initialised_anew(trained: Trained) -> None:
    nlp = opened(trained.path)
    with pytest.raises(PelError, match='already trained.* as "source"'):
        nlp.initialize(lambda: examples(nlp))
