"""A linker saved and loaded, moved, opened, sourced and used in other processes is the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import spacy
import srsly
from safetensors import safe_open
from spacy.language import Language
from spacy.tokens import DocBin

from spacy_pel.errors import PelError
from spacy_pel.jobs.embed import embed_kb
from spacy_pel.kb import Entity, build_kb
from spacy_pel.linking.calibration import Calibration

from ..conftest import ENTITIES
from .conftest import CONFIG, TRAIN, Trained, linked, mentions_of

# Links the docs of a DocBin once for each of the given numbers of processes.
LINK = """
import json, sys
import spacy
from spacy.tokens import DocBin

if __name__ == "__main__":
    folder, docs, *n_process = sys.argv[1:]
    nlp = spacy.load(folder)
    found = []
    for n in n_process:
        linked = nlp.pipe(
            DocBin().from_disk(docs).get_docs(nlp.vocab), n_process=int(n), batch_size=7
        )
        found.append(
            [
                [e.kb_id_, e._.kb_score, e._.kb_probability, list(e._.kb_candidates)]
                for d in linked
                for e in d.ents
            ]
        )
    print(json.dumps(found))
"""


def link_elsewhere(folder: Path, tmp_path: Path, *n_process: int, **environment: str) -> list:
    """Results of another process for each number of processes."""
    DocBin(docs=mentions_of(spacy.blank("en"), TRAIN)).to_disk(tmp_path / "docs.spacy")
    (tmp_path / "link.py").write_text(LINK)
    elsewhere = subprocess.run(
        [sys.executable, "link.py", str(folder), "docs.spacy", *map(str, n_process)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env={**os.environ, **environment},
    )
    assert elsewhere.returncode == 0, elsewhere.stderr
    return json.loads(elsewhere.stdout)


def calibrated(trained: Trained) -> Language:
    """The trained pipeline with a threshold that parts its mentions, and probabilities."""
    nlp = spacy.load(trained.path)
    linker = nlp.get_pipe("proxy_linker")
    scores = sorted(score for _, score, *_ in linked(nlp))
    linker.nil_threshold = (scores[10] + scores[11]) / 2
    linker.calibration = Calibration(5.5, -1.25)
    return nlp


def fresh() -> tuple[Language, Any]:
    nlp = spacy.blank("en")
    return nlp, nlp.add_pipe("proxy_linker", config=CONFIG)


# Saving and loading


def test_disk_keeps_all(trained: Trained, expected, tmp_path: Path) -> None:
    assert linked(spacy.load(trained.path)) == expected
    nlp, linker = fresh()
    trained.nlp.get_pipe("proxy_linker").to_disk(tmp_path / "linker")
    linker.from_disk(tmp_path / "linker")
    assert linked(nlp) == expected


def test_bytes_keep_all(trained: Trained, expected) -> None:
    nlp, linker = fresh()
    original = trained.nlp.get_pipe("proxy_linker")
    linker.from_bytes(original.to_bytes())
    assert linked(nlp) == expected
    assert linker.settings_of_weights() == original.settings_of_weights()
    assert linker.to_bytes() == original.to_bytes()
    nlp, _ = fresh()
    assert linked(nlp.from_bytes(trained.nlp.to_bytes())) == expected


def test_the_settings_of_the_weights_travel_with_them(trained: Trained, expected) -> None:
    nlp = spacy.blank("en")  # the defaults ask for another pooling, and two towers are asked for
    linker = nlp.add_pipe("proxy_linker", config={"candidates": 5, "model": {"shared": False}})
    linker.from_bytes(trained.nlp.get_pipe("proxy_linker").to_bytes())
    assert linked(nlp) == expected


def test_an_empty_linker_can_be_saved(tmp_path: Path) -> None:
    nlp, _ = fresh()
    nlp.to_disk(tmp_path)
    with pytest.raises(PelError, match="has no weights"):
        linked(spacy.load(tmp_path))


def test_saved_where_it_was_loaded_from(trained: Trained, expected, tmp_path: Path) -> None:
    trained.nlp.to_disk(tmp_path)
    nlp = spacy.load(tmp_path)  # its weights are still in the file
    nlp.to_disk(tmp_path)
    assert linked(nlp) == expected == linked(spacy.load(tmp_path))


def test_exclude_is_honoured(trained: Trained, tmp_path: Path) -> None:
    linker = trained.nlp.get_pipe("proxy_linker")
    linker.to_disk(tmp_path / "linker", exclude=["model", "kb"])
    assert [path.name for path in (tmp_path / "linker").iterdir()] == ["cfg"]
    assert set(srsly.msgpack_loads(linker.to_bytes(exclude=["model"]))) == {"cfg", "kb.json"}


def test_a_checkpoint_holds_no_copy_of_the_kb(trained: Trained, tmp_path: Path) -> None:
    assert {path.name for path in (trained.path / "proxy_linker").iterdir()} == {
        "cfg",
        "model",
        "kb.json",
    }
    nlp = spacy.load(trained.path)
    linker = nlp.get_pipe("proxy_linker")
    small = len(linker.to_bytes())
    big = build_kb((Entity(f"E{n:04}", f"entity {n}") for n in range(2000)), tmp_path / "kb")
    embed_kb(big.path, linker)
    linker.set_kb(big.path)
    assert abs(len(linker.to_bytes()) - small) < 1000


def test_nothing_is_pickled(trained: Trained) -> None:
    folder = trained.path / "proxy_linker"
    for name in ("cfg", "kb.json"):
        assert isinstance(json.loads((folder / name).read_text("utf8")), dict)
    with safe_open(folder / "model", "pt") as model:  # texts and tensors, and nothing else
        (facts,) = map(json.loads, model.metadata().values())
        assert list(model.keys())
    (tower,) = facts["encoders"]
    assert json.loads(tower["config"]) and json.loads(tower["tokenizer"])


# The threshold and the calibration


def test_threshold_and_calibration_are_kept(trained: Trained, tmp_path: Path) -> None:
    nlp = calibrated(trained)
    expected = linked(nlp)
    assert {"NIL"} < {id for id, *_ in expected}
    nlp.to_disk(tmp_path)
    assert linked(spacy.load(tmp_path)) == expected
    assert linked(fresh()[0].from_bytes(nlp.to_bytes())) == expected

    opened = spacy.blank("en")
    opened.add_pipe(
        "proxy_linker", config={"path": str(tmp_path), "candidates": 5, "sure_probability": None}
    )
    sourced = spacy.blank("en")
    sourced.add_pipe("proxy_linker", source=nlp)
    for other in (opened, sourced):
        assert linked(other) == expected
        other.to_disk(tmp_path / "other")
        assert linked(spacy.load(tmp_path / "other")) == expected


def test_a_threshold_named_at_loading_goes_before_the_saved_one(
    trained: Trained, tmp_path: Path
) -> None:
    def thresholds(nlp: Language) -> float:
        return nlp.get_pipe("proxy_linker").nil_threshold

    nlp = calibrated(trained)
    saved = thresholds(nlp)
    nlp.to_disk(tmp_path / "calibrated")
    named = {"components.proxy_linker.nil_threshold": 2.0}
    for opened in (
        spacy.load(tmp_path / "calibrated", config=named),
        spacy.blank("en"),
    ):
        if not opened.pipe_names:
            config = {"path": str(tmp_path / "calibrated"), "nil_threshold": 2.0}
            config["sure_probability"] = None
            opened.add_pipe("proxy_linker", config=config)
        assert thresholds(opened) == 2.0
        assert {id for id, *_ in linked(opened)} == {"NIL"}
        # What is set afterwards goes before what the config named back then.
        for later in (2.0, saved, None):
            opened.get_pipe("proxy_linker").nil_threshold = later
            opened.to_disk(tmp_path / "again")
            assert thresholds(spacy.load(tmp_path / "again")) == later


def test_a_linker_saved_before_there_was_calibration_is_loaded(
    trained: Trained, expected, tmp_path: Path
) -> None:
    shutil.copytree(trained.path, tmp_path / "old")
    file = tmp_path / "old" / "proxy_linker" / "cfg"
    cfg = json.loads(file.read_text("utf8"))
    for name in ("nil_threshold", "configured_nil_threshold", "calibration"):
        del cfg[name]
    file.write_text(json.dumps(cfg), encoding="utf8")
    assert linked(spacy.load(tmp_path / "old")) == expected


# Where the KB is


def test_moved_together_and_used_in_another_process(
    trained: Trained, expected, tmp_path: Path
) -> None:
    before, after = tmp_path / "before", tmp_path / "after" / "here"
    shutil.copytree(trained.kb, before / "kb")
    nlp = spacy.load(trained.path)
    nlp.get_pipe("proxy_linker").set_kb(before / "kb")
    (before / "models").mkdir()
    nlp.to_disk(before / "models" / "linker")
    after.parent.mkdir()
    before.rename(after)
    folder = after / "models" / "linker"
    assert spacy.load(folder).get_pipe("proxy_linker").kb.path == after / "kb"
    (found,) = link_elsewhere(folder, tmp_path, 1)
    assert found == expected


def test_a_relative_kb_is_found_from_any_working_directory(
    trained: Trained, expected, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(trained.kb.parent)
    nlp = spacy.load(trained.path)
    nlp.get_pipe("proxy_linker").set_kb("kb")
    nlp.to_disk(tmp_path / "pipeline")
    monkeypatch.chdir(tmp_path)
    assert linked(spacy.load("pipeline")) == expected
    nlp, linker = fresh()
    linker.from_bytes(spacy.load("pipeline").get_pipe("proxy_linker").to_bytes())
    monkeypatch.chdir("/")
    assert linked(nlp) == expected


def test_the_pipeline_may_be_moved_alone(trained: Trained, expected, tmp_path: Path) -> None:
    shutil.copytree(trained.path, tmp_path / "deep" / "er" / "pipeline")
    nlp = spacy.load(tmp_path / "deep" / "er" / "pipeline")
    assert nlp.get_pipe("proxy_linker").kb.path == trained.kb
    assert linked(nlp) == expected


def test_a_kb_inside_the_pipeline_wins(trained: Trained, expected, tmp_path: Path) -> None:
    shutil.copytree(trained.path, tmp_path / "pipeline")
    inside = tmp_path / "pipeline" / "proxy_linker" / "kb"
    shutil.copytree(trained.kb, inside)
    nlp = spacy.load(tmp_path / "pipeline")
    assert nlp.get_pipe("proxy_linker").kb.path == inside
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


# Other processes


def test_workers_give_the_same_after_torch_and_faiss_were_used(
    trained: Trained, expected, tmp_path: Path
) -> None:
    # With threads in the parent: a fork inherits the pools but not their threads.
    nlp = calibrated(trained)
    nlp.to_disk(tmp_path / "pipeline")
    alone, shared = link_elsewhere(tmp_path / "pipeline", tmp_path, 1, 2, OMP_NUM_THREADS="2")
    assert shared == alone
    ids = [id for id, *_ in alone]
    assert ids == [id for id, *_ in linked(nlp)] and ids.count("NIL") == 11
    assert [ranking[0]["id"] for *_, ranking in alone] == [id for id, *_ in expected]


@pytest.mark.parametrize("part", ["cfg", "model"])
def test_bytes_without_a_part_are_refused(trained: Trained, part: str) -> None:
    linker = trained.nlp.get_pipe("proxy_linker")
    data = linker.to_bytes(exclude=[part])
    bare = spacy.blank("en").add_pipe("proxy_linker")
    with pytest.raises(PelError, match=f'no "{part}" in these bytes'):
        bare.from_bytes(data)
    bare.from_bytes(data, exclude=[part])


def test_a_kb_named_at_loading_goes_before_the_saved_one(tiny_folder: Path, tmp_path: Path) -> None:
    other = build_kb(ENTITIES[:3], tmp_path / "other").path
    config = {"components.proxy_linker.kb": str(other)}
    named = spacy.load(tiny_folder, config=config).get_pipe("proxy_linker")
    saved = spacy.load(tiny_folder).get_pipe("proxy_linker")
    assert (len(named.kb), len(saved.kb)) == (3, len(ENTITIES))
