"""A manifest that a stranger wrote cannot name what is outside its folder, nor confuse a reader."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.folder.manifest import MANIFEST, manifest_text, read_manifest
from spacy_pel.kb.verify import verify
from spacy_pel.kb.writing.compaction import compact
from spacy_pel.kb.writing.entity_changes import add_entities, remove_entities

from ..examples import ENTITIES
from ..living import NameRows, living_kb

NAMES = [
    "../../../.bashrc",
    "/etc/passwd",
    "..\\..\\vectors-0123456789abcdef.npy",
    "sub/vectors-0123456789abcdef.npy",
    "vectors-0123456789abcdef.npy\n",
    "vectors-0123456789ABCDEF.npy",
    "manifest.json",
    ".lock",
    "..",
    "",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A KB with each kind of file but a projection."""
    folder = tmp_path_factory.mktemp("form") / "kb"
    living_kb(folder, ENTITIES, dtype="int8", index="approximate")
    add_entities(folder, [Entity("C4", "Gout", ("Podagra",))], NameRows())
    remove_entities(folder, ["C10"])
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "kb")


def rewrite(folder: Path, edit: Callable[[dict], object]) -> None:
    """Changes a manifest and makes its checksum fit, as an attacker would."""
    manifest = json.loads((folder / MANIFEST).read_text())
    edit(manifest)
    (folder / MANIFEST).write_text(manifest_text(manifest))


def assert_refused(folder: Path, fault: str) -> None:
    """That nothing reads the KB, and that writers leave it as it is."""
    readers = (
        read_manifest,
        KnowledgeBase.open,
        compact,
        lambda path: remove_entities(path, ["C1"]),
    )
    for read in readers:
        with pytest.raises(PelError, match=fault):
            read(folder)
    assert any(fault in str(problem) for problem in verify(folder))


@pytest.mark.parametrize("name", NAMES)
def test_names_of_files(folder: Path, name: str) -> None:
    rewrite(folder, lambda m: m["files"].update({name: {"bytes": 1, "sha256": "0" * 64}}))
    assert_refused(folder, "which is not a file of a KB")


PLACES = {
    "records": lambda m: m["segments"][0],
    "removed": lambda m: m["segments"][0],
    "file": lambda m: m["segments"][0]["vectors"],
    "scales_file": lambda m: m["segments"][0]["vectors"],
    "rows_file": lambda m: m["segments"][0]["vectors"],
    "basis_file": lambda m: m["segments"][0]["vectors"],
    "index": lambda m: m["segments"][0]["vectors"]["index"],
}


@pytest.mark.parametrize("place", PLACES)
def test_names_in_segments(folder: Path, place: str) -> None:
    key = "file" if place == "index" else place
    rewrite(folder, lambda m: PLACES[place](m).update({key: "../secret.npy"}))
    assert_refused(folder, "in a segment, but does not list it as a file")


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m.update(files=[]),
        lambda m: m.pop("segments"),
        lambda m: m["segments"].append("C1"),
        lambda m: m["segments"][0].update(count="4"),
        lambda m: m["segments"][0].update(count=-1),
        lambda m: m["segments"][0].update(count=10**12),
        lambda m: m["segments"][0].update(records=None),
        lambda m: m["segments"][0].pop("vectors"),
        lambda m: m["segments"][0]["vectors"].pop("rows_file"),
        lambda m: m["segments"][0]["vectors"].update(index="PQ4"),
        lambda m: m["files"].update(dict.fromkeys(m["files"], {})),
        lambda m: m.update(counts={}),
        lambda m: m.update(sources="MRCONSO"),
        lambda m: m.update(vectors={"dim": "8"}),
    ],
)
def test_another_form(folder: Path, edit: Callable[[dict], object]) -> None:
    rewrite(folder, edit)
    assert_refused(folder, "do not use this KB; build it again")


@pytest.mark.parametrize("stem", ["entities", "removed", "vectors", "scales", "rows", "index"])
def test_a_symbolic_link_is_refused(folder: Path, tmp_path: Path, stem: str) -> None:
    path = next(folder.glob(f"{stem}-*"))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert_refused(folder, "is a symbolic link, which a KB does not contain; copy the KB with its")


def test_a_linked_manifest_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / MANIFEST).rename(tmp_path / "elsewhere")
    (folder / MANIFEST).symlink_to(tmp_path / "elsewhere")
    assert_refused(folder, "manifest.json: is a symbolic link")


def test_a_link_to_the_whole_folder_is_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with KnowledgeBase.open(tmp_path / "link") as kb:
        assert "C1" in kb
