"""One way to name documents, whatever their format: what is linked, and what is trained on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..errors import PelError
from .document_stream import DocumentFile, DocumentStream, FileStream, files_behind
from .format import Format
from .formats import WHOLE_TEXT, format_named, format_of, suffixes
from .published_splits import layout_of, open_split

STDIN = "-"


def open_documents(
    given: str, format_name: str | None = None, *, with_ids: bool = False
) -> DocumentStream:
    """The documents of a file, of all files of a folder, of a split, or of standard input.

    Args:
        given: A path, or a URL that fsspec opens; or FOLDER:SPLIT of a corpus as its authors publish
            it (see ``published_splits``); or "-" for standard input. The files of a folder are read
            by name; files of other kinds are passed over, and a text file is one document.
        format_name: The format of files. None: the longest suffix of a name decides, and standard
            input is text.
        with_ids: Whether mentions must have entity ids. Formats that have none are then refused,
            and passed over in a folder.

    Raises:
        PelError: There is nothing to read.
    """
    wanted = _Wanted(format_name, with_ids)
    if given == STDIN:
        if sys.stdin is None:
            raise PelError("stdin is closed", f"give {wanted.kinds}")
        return FileStream([DocumentFile("stdin", None, None, wanted.format_of("stdin.txt"))])
    if "://" in given:
        place, found = given, files_behind(given)
    elif os.path.isfile(given):
        place, found = given, [(given, given, os.path.getsize(given))]
    else:
        folder, words = _folder(given)
        if folder is None:
            raise PelError(f"{given}: no such file", f"give {wanted.kinds}")
        if words or (format_name is None and layout_of(folder)):
            return open_split(folder, words)
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        place = f"{folder}{os.sep}"
        found = [(p.relative_to(folder).as_posix(), str(p), p.stat().st_size) for p in paths]
    if [name for name, _, _ in found] == [given]:
        return FileStream([DocumentFile(*found[0], wanted.format_of(given))])
    files = []
    for name, url, size in found:
        try:
            format = wanted.format_of(name)
        except PelError:
            continue
        if not any(part.startswith(".") for part in name.split("/")):
            is_text = format.name == "text"
            format = format._replace(input=WHOLE_TEXT) if is_text else format
            files.append(DocumentFile(name, url, size, format))
    if not files:
        raise PelError(f"{place}: no file in it that can be read", f"give {wanted.kinds}")
    return FileStream(files)


class _Wanted:
    """Which files are read, and in what format."""

    def __init__(self, format_name: str | None, with_ids: bool) -> None:
        self.given = None if format_name is None else format_named(format_name)
        self.with_ids = with_ids
        other = "FOLDER:SPLIT of MedMentions or ZESHEL" if with_ids else "- for stdin"
        files = suffixes("input", with_ids=with_ids)
        self.kinds = f"a file {files}, each also .gz; a folder of such files; or {other}"
        if self.given and self.given.input is None:
            raise PelError(f"{self.given.name} can be written but not read", f"give {self.kinds}")

    def format_of(self, name: str) -> Format:
        """The format of a file of this name; PelError if it is not to be read."""
        format = self.given or format_of(name.lower().removesuffix(".gz"))
        if format is None or format.input is None:
            named = "" if self.with_ids else "name it with --from, or "
            raise PelError(f"{name}: unknown kind of file", f"{named}give {self.kinds}")
        if self.with_ids and not format.input.has_ids:
            raise PelError(
                f"{name}: {format.name} files have no entity ids",
                f"give it the suffix of another format if it is in that, or give {self.kinds}",
            )
        return format


def _folder(given: str) -> tuple[Path | None, list[str]]:
    """The folder with which the name begins, and what follows it, separated by colons."""
    words: list[str] = []
    while not Path(given).is_dir():
        given, colon, last = given.rpartition(":")
        if not colon or len(words) == 2:
            return None, []
        words.insert(0, last)
    return Path(given), words
