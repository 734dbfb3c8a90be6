"""Numbered lines of a text file, plain or gzipped."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from ...errors import PelError


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Pairs of line number (from 1) and line without its end, of a UTF-8 file, ``.gz`` or not.

    Lines end at a line feed alone: ontologies hold stray carriage returns and Unicode separators.
    Raises PelError, with file and line, if the file cannot be opened or decoded.
    """
    number = 0
    opener = gzip.open if path.name.endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise PelError(f"{path}: not UTF-8 after line {number}; save it as UTF-8") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise PelError(f"{path}: damaged gzip after line {number}; fetch it again") from error
    except OSError as error:
        raise PelError(f"{path}: cannot be read ({error.strerror}); check its rights") from error
