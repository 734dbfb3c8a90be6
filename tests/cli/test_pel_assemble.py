"""A pipeline with its KB inside is whole, and stands alone."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import spacy
from spacy.language import Language

from spacy_pel.kb import Entity, build_kb

from ..kb.examples import edit_settings

TEXT = "The patient has MS and cephalgia."


def annotations(folder: Path) -> list:
    return [(ent.kb_id_, ent._.kb_candidates) for ent in spacy.load(folder)(TEXT).ents]


def test_it_links_alike_from_anywhere(
    run, tiny_folder: Path, tiny_kb: Path, tmp_path: Path
) -> None:
    kb = shutil.copytree(tiny_kb, tmp_path / "kb")
    expected = annotations(tiny_folder)
    assert "python -m spacy package" in run("assemble", tiny_folder, kb, tmp_path / "out")
    shutil.rmtree(kb)
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    assert annotations(moved) == expected
    assert spacy.load(moved).get_pipe("proxy_linker").kb.path == moved / "proxy_linker" / "kb"


def test_the_kb_of_a_stranger_cannot_overwrite_files_outside(
    run, tiny_folder: Path, tiny_kb: Path, tmp_path: Path
) -> None:
    kb = shutil.copytree(tiny_kb, tmp_path / "downloads" / "from" / "stranger" / "kb")
    victim, payload = tmp_path / ".bashrc", tmp_path / "downloads" / ".bashrc"
    victim.write_text("mine")
    payload.write_text("evil")
    content = {"bytes": 4, "sha256": hashlib.sha256(b"evil").hexdigest()}
    file = {"name": "../../../.bashrc", **content}
    edit_settings(kb, lambda settings: settings["vectors"].update(file=file))
    said = run("assemble", tiny_folder, kb, tmp_path / "out", code=1)
    assert "describes itself in no known way; do not use it" in said
    assert victim.read_text() == "mine"
    assert not (tmp_path / "out").exists()


def test_other_components_share_its_kb(
    run, tiny_nlp: Language, tiny_kb: Path, tmp_path: Path
) -> None:
    tiny_nlp.remove_pipe("entity_ruler")
    tiny_nlp.add_pipe("kb_matcher", config={"kb": str(tiny_kb), "label": "TERM"}, first=True)
    tiny_nlp.to_disk(tmp_path / "pipeline")
    kb = shutil.copytree(tiny_kb, tmp_path / "kb")
    run("assemble", tmp_path / "pipeline", kb, tmp_path / "out")
    shutil.rmtree(kb)
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    nlp = spacy.load(moved)
    assert [ent.text for ent in nlp(TEXT).ents] == ["MS", "cephalgia"]
    assert nlp.get_pipe("kb_matcher").kb.path == moved / "proxy_linker" / "kb"
    assert len(list(moved.rglob("*.sqlite"))) == 1


def two_linkers(tiny_folder: Path) -> Language:
    """The pipeline with a second linker behind the first, to the same KB."""
    nlp = spacy.load(tiny_folder)
    nlp.add_pipe("proxy_linker", name="second", config={"path": str(tiny_folder), "candidates": 1})
    return nlp


def test_two_linkers_of_one_kb_or_of_two(
    run, tiny_folder: Path, tiny_kb: Path, tmp_path: Path
) -> None:
    nlp = two_linkers(tiny_folder)
    nlp.to_disk(tmp_path / "pipeline")
    run("assemble", tmp_path / "pipeline", tiny_kb, tmp_path / "out")
    nlp.get_pipe("second").set_kb(build_kb([Entity("X1", "x")], tmp_path / "other").path)
    nlp.to_disk(tmp_path / "pipeline")
    said = run("assemble", tmp_path / "pipeline", tiny_kb, tmp_path / "out2", code=1)
    assert '"second" links to another KB' in said
    assert not (tmp_path / "out2").exists()


def test_only_a_pipeline_is_replaced_and_only_by_force(
    run, tiny_folder: Path, tiny_kb: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run("assemble", tiny_folder, tiny_kb, out)
    assert "replace it with --force" in run("assemble", tiny_folder, tiny_kb, out, code=1)
    (out / "stray").touch()
    run("assemble", out, out / "proxy_linker" / "kb", out, "--force")  # onto itself
    assert not (out / "stray").exists()
    assert annotations(out) == annotations(tiny_folder)
    (tmp_path / "mine").mkdir()
    output = run("assemble", tiny_folder, tiny_kb, tmp_path / "mine", "--force", code=1)
    assert "exists, and is no pipeline; choose a new folder" in output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]


@pytest.mark.parametrize("error, code", [(KeyboardInterrupt, 130), (OSError(28, "No space"), 1)])
def test_breaking_off_leaves_what_was_there(
    run, tiny_folder: Path, tiny_kb: Path, tmp_path: Path, monkeypatch, error, code: int
) -> None:
    out = tmp_path / "out"
    run("assemble", tiny_folder, tiny_kb, out)

    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("spacy_pel.kb.copies.write_checksums", broken)
    run("assemble", tiny_folder, tiny_kb, out, "--force", code=code)
    run("assemble", tiny_folder, tiny_kb, tmp_path / "new", code=code)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert annotations(out) == annotations(tiny_folder)
