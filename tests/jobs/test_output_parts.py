"""Parts of an output: which are finished, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.documents import open_documents
from spacy_pel.errors import PelError
from spacy_pel.jobs.output_parts import LinkedCounts, documents_digest, output_parts

SETTINGS = {"batch size": 1}


def write(text: str):
    def write_part(path: Path) -> LinkedCounts:
        path.write_text(text)
        return LinkedCounts(1, len(text), ("document 2: bad",))

    return write_part


def together(parts, path: Path) -> None:
    path.write_text("".join(part.read_text() for part in parts))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "new" / "out.txt"


def broken_off(out: Path, settings=SETTINGS) -> Path:
    """The folder of parts of a run that wrote one, and was broken off."""
    with pytest.raises(KeyboardInterrupt), output_parts(out, settings, pytest.fail) as parts:
        parts.write(0, "a", write("one"))
        raise KeyboardInterrupt
    return parts.folder


def test_a_finished_part_is_there_the_next_time(out: Path) -> None:
    broken_off(out)
    assert not out.exists()
    with output_parts(out, SETTINGS, pytest.fail) as parts:
        assert parts.finished(0, "a") == LinkedCounts(1, 3, ("document 2: bad",))
        assert parts.finished(1, "b") is None
        parts.write(1, "b", write("two"))
        parts.join(2, together, out)
    assert out.read_text() == "onetwo"
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_a_part_of_other_documents_is_not_finished(out: Path) -> None:
    broken_off(out)
    with output_parts(out, SETTINGS, pytest.fail) as parts:
        assert parts.finished(0, "b") is None
        assert parts.is_changed


def test_a_part_that_breaks_off_is_not_finished(out: Path) -> None:
    broken_off(out)

    def broken(path: Path) -> LinkedCounts:
        path.write_text("half")
        raise OSError

    with pytest.raises(OSError), output_parts(out, SETTINGS, pytest.fail) as parts:
        parts.write(0, "a", broken)
    with output_parts(out, SETTINGS, pytest.fail) as parts:
        assert parts.finished(0, "a") is None


def test_other_settings_start_anew(out: Path) -> None:
    said: list[str] = []
    broken_off(out)
    with output_parts(out, {"batch size": 2, "pipeline": "x"}, said.append) as parts:
        assert parts.finished(0, "a") is None
        assert not list(parts.folder.glob("*.part"))
    assert said == [f"{parts.folder}: was begun with another batch size, pipeline; starting again"]


def test_nothing_is_left_where_nothing_was_done(out: Path) -> None:
    with pytest.raises(PelError), output_parts(out, SETTINGS, pytest.fail):
        raise PelError("it is over", "try again")
    assert list(out.parent.iterdir()) == []


def test_a_folder_of_other_files_is_left_as_it_is(out: Path) -> None:
    mine = out.with_name("out.txt.parts") / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")
    with (
        pytest.raises(PelError, match="holds other files"),
        output_parts(out, SETTINGS, pytest.fail),
    ):
        pass
    assert mine.read_text() == "precious"


@pytest.mark.parametrize("name, ours", [("tmp_joined", True), ("2023.csv", False)])
def test_what_a_killed_run_leaves_is_no_other_file(out: Path, name: str, ours: bool) -> None:
    broken_off(out)
    left = out.with_name("out.txt.parts") / name
    left.write_text("half")
    if ours:
        with output_parts(out, SETTINGS, pytest.fail) as parts:
            assert parts.finished(0, "a") == LinkedCounts(1, 3, ("document 2: bad",))
        return
    with (
        pytest.raises(PelError, match="holds other files"),
        output_parts(out, SETTINGS, pytest.fail),
    ):
        pass
    assert left.read_text() == "half"


def test_a_run_killed_while_it_removed_the_parts(out: Path) -> None:
    folder = broken_off(out)
    (folder / "000000.part").unlink()
    with output_parts(out, SETTINGS, pytest.fail) as parts:
        assert parts.finished(0, "a") is None
        assert not parts.is_changed


def test_one_process_at_a_time(out: Path) -> None:
    with output_parts(out, SETTINGS, pytest.fail) as parts:
        parts.write(0, "a", write("one"))
        with pytest.raises(PelError, match="out.txt.parts: process .* is writing to it"):
            with output_parts(out, SETTINGS, pytest.fail):
                pass
        assert parts.finished(0, "a")


def test_who_is_refused_leaves_what_has_begun(out: Path) -> None:
    with output_parts(out, SETTINGS, pytest.fail) as parts:
        with pytest.raises(PelError, match="is writing to it"):
            with output_parts(out, SETTINGS, pytest.fail):
                pass
        parts.write(0, "a", write("one"))


def test_a_digest_is_of_what_is_in_the_documents(tmp_path: Path) -> None:
    def digest_of(name: str, text: str, format: str | None = None) -> str:
        (tmp_path / name).write_text(text)
        return documents_digest(list(open_documents(str(tmp_path / name), format)))

    one = digest_of("a.txt", "ab\nc\n")
    assert digest_of("b.txt", "\nab\r\nc") == one
    assert digest_of("a.txt", "a\nbc\n") != one
    assert digest_of("a.txt", "ab\nc\n", "jsonl") != one
    row = digest_of("a.csv", "text,id\nab,1\n")
    assert digest_of("a.csv", "id,text\n1,ab\n") != digest_of("a.csv", "text,id\nab,2\n")
    assert digest_of("a.csv", "text,id,more\nab,1,x\n") == row


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_damaged_manifest_has_a_remedy(out: Path, data: bytes) -> None:
    folder = broken_off(out)
    (folder / "manifest.json").write_bytes(data)
    with pytest.raises(
        PelError, match="manifest.json: is damaged .*; remove .*parts to start again"
    ):
        with output_parts(out, SETTINGS, pytest.fail):
            pass


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b"{}", b'{"digest": "a", "counts": 1}']
)
def test_a_part_with_a_damaged_entry_is_made_again(out: Path, data: bytes) -> None:
    folder = broken_off(out)
    (folder / "000000.json").write_bytes(data)
    with output_parts(out, SETTINGS, pytest.fail) as parts:
        assert parts.finished(0, "a") is None and not parts.is_changed
