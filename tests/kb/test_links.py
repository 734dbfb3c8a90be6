"""Links in a KB folder lead nowhere: they are refused, and nothing is ever written through one."""

from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.io.whole_files import LOCK, whole_file, writer_lock
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.kb.change import remove_entities
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.names_file import store_names
from spacy_pel.kb.store import JOURNAL, KB_FILE
from spacy_pel.kb.transaction import CHECKSUMS, write_checksums

from ..conftest import write_text
from .living import ENTITIES, embed

NAMES = [
    KB_FILE, JOURNAL, f"{KB_FILE}-wal", CHECKSUMS, LOCK, "vectors", "names", ".names-0.npy",
    ".tmp-0.npy", ".partial-vectors", ".partial-vectors/.pel/settings.json", "README",
]  # fmt: skip
USES = {
    "open": KnowledgeBase.open,
    "change": lambda folder: remove_entities(folder, ["C1"]),
    "build": lambda folder: build_kb(ENTITIES, folder),
    "embed": lambda folder: embed(folder),
}


@pytest.mark.parametrize("target", ["file", "folder", "nothing"])
@pytest.mark.parametrize("name", NAMES)
def test_no_link_is_followed(folder: Path, tmp_path: Path, name: str, target: str) -> None:
    with KnowledgeBase.open(folder) as kb:
        kb.name_finder()
        prefix = {"vectors": "vectors-*", "names": f"{kb.names_stem}-*"}.get(name)
    path = next(folder.glob(prefix)) if prefix else folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    outside = tmp_path / "outside"
    if target == "file":
        outside.write_text("years of work")
    if target == "folder":
        outside.mkdir()
    path.symlink_to(outside)
    before = sorted(outside.parent.iterdir())
    for use in USES.values():
        with pytest.raises(PelError, match="is a symbolic link") as caught:
            use(folder)
        assert str(path) in str(caught.value)
    assert "is a symbolic link" in str(verify(folder)[0])
    assert path.is_symlink() and sorted(outside.parent.iterdir()) == before
    assert target != "file" or outside.read_text() == "years of work"
    assert target != "folder" or not any(outside.iterdir())


def test_a_link_that_came_later_is_not_followed(folder: Path, tmp_path: Path) -> None:
    """The folder was checked, and a link was put into it since."""
    outside = write_text(tmp_path / "outside", "years of work")
    with KnowledgeBase.open(folder) as kb:
        table = kb.name_table()
        store_names(folder, kb.names_stem, table)
        [path] = folder.glob(f"{kb.names_stem}-*")
        path.unlink()
        path.symlink_to(outside)
        for use in (kb.name_finder, lambda: store_names(folder, kb.names_stem, table)):
            with pytest.raises(PelError, match="is a symbolic link"):
                use()
    (folder / LOCK).symlink_to(outside)
    with pytest.raises(PelError, match="is a symbolic link"), writer_lock(folder):
        raise AssertionError
    (folder / CHECKSUMS).unlink()
    (folder / CHECKSUMS).symlink_to(outside)
    write_checksums(folder)
    with whole_file(folder / LOCK) as file:
        file.write("new")
    assert outside.read_text() == "years of work"
    assert not (folder / CHECKSUMS).is_symlink() and not (folder / LOCK).is_symlink()


def test_paths_that_are_no_folder(tmp_path: Path) -> None:
    file, circle = tmp_path / "file", tmp_path / "circle"
    file.touch()
    circle.symlink_to(circle)
    for path in (file, file / "below", circle, tmp_path / ("x" * 300)):
        for use in USES.values():
            with pytest.raises(PelError) as caught:
                use(path)
            assert path.name in str(caught.value)
        assert verify(path)
