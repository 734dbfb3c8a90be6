"""One way to name documents, whatever their format: what is linked, and what is trained on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import PelError
from .document_stream import DocumentFile, DocumentStream, files_behind
from .format import Format
from .formats import WHOLE_TEXT, format_named, format_of, suffixes
from .published_splits import is_published, open_split

Name = str | Path


def open_documents(
    given: Name | Sequence[Name], format_name: str | None = None, *, with_ids: bool = False
) -> DocumentStream:
    """The documents of files, of all files of folders, of splits, or of standard input.

    Args:
        given: One or several, each a path, or a URL that fsspec opens; or FOLDER:SPLIT of a corpus as
            its authors publish it (see ``published_splits``); or "-" for standard input. The files
            of a folder are read by name; files of other kinds are passed over, and a text file is
            one document.
        format_name: The format of files. None: the longest suffix of a name decides, and standard
            input is text.
        with_ids: Whether mentions must have entity ids. Formats that have none are then refused,
            and passed over in a folder.

    Raises:
        PelError: There is nothing to read.
    """
    named = None if format_name is None else format_named(format_name)
    other = "FOLDER:SPLIT of MedMentions or ZESHEL" if with_ids else "- for stdin"
    readable = suffixes("input", with_ids=with_ids)
    kinds = f"give a file {readable}, each also .gz; a folder of such files; or {other}"
    if named and named.input is None:
        raise PelError(f"{named.name} can be written but not read", kinds)

    def of_file(name: str) -> Format:
        """The format of a file of this name; PelError if it is not to be read."""
        format = named or format_of(name.lower().removesuffix(".gz"))
        if format is None or format.input is None:
            remedy = kinds if with_ids else f"name it with --from, or {kinds}"
            raise PelError(f"{name}: unknown kind of file", remedy)
        if with_ids and not format.input.has_ids:
            problem = f"{name}: {format.name} files have no entity ids"
            remedy = f"give it the suffix of another format if it is in that, or {kinds}"
            raise PelError(problem, remedy)
        return format

    def files(given: str) -> Iterator[DocumentFile]:
        if given == "-":
            if sys.stdin is None:
                raise PelError("stdin is closed", kinds)
            yield DocumentFile("stdin", None, None, of_file("stdin.txt"))
            return
        if "://" in given:
            found = files_behind(given)
        elif os.path.isfile(given):
            found = [(given, given, os.path.getsize(given))]
        else:
            folder, words = _folder(given)
            if folder is None:
                raise PelError(f"{given}: no such file", kinds)
            if words or (named is None and is_published(folder)):
                yield from open_split(folder, words)
                return
            paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            found = [(p.relative_to(folder).as_posix(), str(p), p.stat().st_size) for p in paths]
        if [name for name, *_ in found] == [given]:
            yield DocumentFile(*found[0], of_file(given))
            return
        is_empty = True
        for name, url, size in found:
            try:
                format = of_file(name)
            except PelError:
                continue
            if not any(part.startswith(".") for part in name.split("/")):
                if format.name == "text":
                    format = format._replace(input=WHOLE_TEXT)
                yield DocumentFile(name, url, size, format)
                is_empty = False
        if is_empty:
            raise PelError(f"{given}: no file in it that can be read", kinds)

    names = [given] if isinstance(given, (str, Path)) else given
    return DocumentStream(file for name in names for file in files(str(name)))


def _folder(given: str) -> tuple[Path | None, list[str]]:
    """The folder with which the name begins, and what follows it, separated by colons."""
    words: list[str] = []
    while not Path(given).is_dir():
        given, colon, last = given.rpartition(":")
        if not colon or len(words) == 2:
            return None, []
        words.insert(0, last)
    return Path(given), words
