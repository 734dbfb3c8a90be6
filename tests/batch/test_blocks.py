from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from spacy_pel.batch.blocks import Blocks, block_folder
from spacy_pel.errors import PelError

SETTINGS = {"batch size": 1}


def write(text: str) -> Callable[[Path], int]:
    def write_block(path: Path) -> int:
        path.write_text(text)
        path.with_suffix(".scratch").write_text("left")
        return len(text)

    return write_block


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "new" / "out"


def opened(out: Path) -> AbstractContextManager[Blocks]:
    return block_folder(out, SETTINGS, restart=True)


def broken_off(out: Path) -> Path:
    """The folder of blocks of a run that wrote one, and was broken off."""
    with pytest.raises(KeyboardInterrupt), opened(out) as blocks:
        blocks.write("0", write("one"), "a")
        raise KeyboardInterrupt
    return out


@pytest.mark.parametrize("at", ["writing", "renaming", "entry"])
def test_a_block_that_breaks_off_is_not_finished(out, monkeypatch, at) -> None:
    broken_off(out)

    def broken(*_: object) -> int:
        raise OSError("disk full")

    with pytest.raises(OSError), opened(out) as blocks, monkeypatch.context() as patch:
        if at == "renaming":
            patch.setattr(Path, "replace", broken)
        elif at == "entry":
            patch.setattr("spacy_pel.batch.blocks.whole_file", broken)
        blocks.write("0", broken if at == "writing" else write("new"), "a")
    with opened(out) as blocks:
        assert blocks.result("0", "a") == (3 if at == "writing" else None)
        assert blocks.result("0", "another input") is None
        assert blocks.names() == ["0"]  # what was made of it is known, and can be removed


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_damaged_block_is_made_again_and_damaged_settings_have_a_remedy(out, data) -> None:
    (broken_off(out) / ".pel" / "0.json").write_bytes(data)
    with opened(out) as blocks:
        assert blocks.result("0", "a") is None
    (out / ".pel" / "settings.json").write_bytes(data)
    message = "settings.json: is damaged .*; remove .*out to start"
    with pytest.raises(PelError, match=message), opened(out):
        pass


def test_blocks_of_other_settings_start_anew_or_are_refused(out: Path, caplog) -> None:
    folder = broken_off(out)
    other = {"batch size": 2, "pipeline": "x"}
    message = "made with another batch size, pipeline; give a new folder"
    with pytest.raises(PelError, match=message), block_folder(folder, other):
        pass
    with block_folder(out, other, restart=True) as blocks:
        assert blocks.result("0", "a") is None
        assert not list(folder.glob("*.part"))
    said = f"{folder}: was begun with another batch size, pipeline; starting again"
    assert caplog.messages == [said]


def test_nothing_is_left_where_nothing_was_done_but_files_of_others(out: Path) -> None:
    with pytest.raises(PelError), opened(out):
        raise PelError("it is over", "try again")
    assert list(out.parent.iterdir()) == []
    mine = broken_off(out) / "mine.txt"
    mine.write_text("precious")
    with opened(out) as blocks:
        blocks.remove()
    assert [path.name for path in mine.parent.iterdir()] == ["mine.txt"]
    with pytest.raises(PelError, match="holds other files"), opened(out):
        pass
    assert mine.read_text() == "precious"


def test_who_is_refused_leaves_what_has_begun(out: Path) -> None:
    with opened(out) as blocks:
        with pytest.raises(PelError, match="out/.pel: process .* is writing to it"), opened(out):
            pass
        blocks.write("0", write("one"), "a")
        assert blocks.result("0", "a")
