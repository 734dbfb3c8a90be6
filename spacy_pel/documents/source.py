"""What is to be linked, a file, a folder of files or standard input, as a stream of documents."""

from __future__ import annotations

import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc

from ..errors import PelError
from .format import Fault, Format
from .formats import format_named, format_of, suffixes
from .text import WHOLE_FILE

STDIN = "-"


class Record(NamedTuple):
    """A document of an input, not yet checked. where: file and line, or the like, for messages.

    data: see ``Input.split``.
    """

    where: str
    data: Any
    format: Format

    @property
    def packed(self) -> bytes:
        """The data as bytes, and what format they are of."""
        data = self.data if isinstance(self.data, bytes) else json.dumps(self.data).encode()
        return f"{self.format.name} {len(data)} ".encode() + data

    def doc(self, nlp: Language, spans_key: str | None) -> Doc:
        """The Doc; PelError, in one line, if the document cannot be read (see ``Input.doc``)."""
        if isinstance(self.data, Fault):
            raise PelError(f"{self.where}: {self.data.problem}", self.data.remedy)
        assert self.format.input is not None
        try:
            return self.format.input.doc(nlp, self.data, spans_key)
        except PelError as error:
            raise error.at(self.where) from error
        except ValueError as error:
            raise PelError(f"{self.where}: {error}", "correct the document") from error


class Source:
    """A stream of records.

    total: bytes of the input, None if that is not known; position: bytes that have been read.
    What cannot be read is a record with a Fault: the rest of a damaged file, for example.
    """

    def __init__(self, files: list[tuple[str, Path | None, Format]]) -> None:
        """files: of each its name, its path, None for stdin, and its format."""
        self.files = files
        paths = [path for _, path, _ in files]
        self.total = sum(path.stat().st_size for path in paths if path) if all(paths) else None
        self._before = 0
        self._open: BinaryIO | None = None

    @property
    def position(self) -> int:
        return self._before + (self._open.tell() if self._open else 0)

    def __iter__(self) -> Iterator[Record]:
        for name, path, format in self.files:
            yield from self._records(name, path, format)

    def _records(self, name: str, path: Path | None, format: Format) -> Iterator[Record]:
        assert format.input is not None
        try:
            if path is None:
                for place, data in format.input.split(sys.stdin.buffer, name):
                    yield Record(_where(name, place), data, format)
                return
            with open(path, "rb") as self._open:
                zipped = path.name.lower().endswith(".gz")
                file: Any = gzip.GzipFile(fileobj=self._open) if zipped else self._open
                for place, data in format.input.split(file, name):
                    yield Record(_where(name, place), data, format)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            yield Record(name, Fault("damaged gzip", "fetch it again"), format)
        except OSError as error:
            yield Record(name, Fault(f"cannot be read ({error.strerror})", "check it"), format)
        except PelError as error:
            yield Record(name, Fault(error.problem, error.remedy), format)
        except ValueError as error:
            yield Record(name, Fault(str(error)), format)
        finally:
            if path is not None:
                self._open = None
                self._before += path.stat().st_size


def open_source(given: str, format_name: str | None = None) -> Source:
    """The documents of a file, of all files of a folder, or, for "-", of stdin.

    format_name: of a format; else the name of a file decides, and stdin is text. In a folder, whose
    files are read by name, a text file is one document, and files of other kinds are passed over;
    a document's place in it is part of the name. Raises PelError if there is nothing to read.
    """
    chosen = None if format_name is None else _readable(format_named(format_name))
    if given == STDIN:
        if sys.stdin is None:
            raise PelError("stdin is closed", f"give {_KINDS}")
        return Source([("stdin", None, chosen or format_named("text"))])
    path = Path(given)
    if path.is_dir():
        return Source(_files_in(path, chosen))
    if not path.is_file():
        raise PelError(f"{given}: no such file", f"give {_KINDS}")
    format = chosen or _format_of(path)
    if format is None:
        raise PelError(f"{given}: unknown kind of file", f"name it with --from, or give {_KINDS}")
    return Source([(given, path, format)])


_KINDS = f"a file {suffixes('input')}, each also .gz; a folder of such files; or - for stdin"


def _format_of(path: Path) -> Format | None:
    format = format_of(path.name.lower().removesuffix(".gz"))
    return format if format and format.input else None


def _readable(format: Format) -> Format:
    if format.input is None:
        raise PelError(f"{format.name} can be written but not read", f"give {_KINDS}")
    return format


def _files_in(folder: Path, chosen: Format | None) -> list[tuple[str, Path | None, Format]]:
    found: list[tuple[str, Path | None, Format]] = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in name.parts)
        format = chosen or _format_of(path)
        if path.is_file() and not hidden and format is not None:
            if format.name == "text":
                format = format._replace(input=WHOLE_FILE)
            found.append((name.as_posix(), path, format))
    if not found:
        raise PelError(f"{folder}{os.sep}: no file in it that can be read", f"give {_KINDS}")
    return found


def _where(name: str, place: str) -> str:
    return f"{name}, {place}" if place else name
