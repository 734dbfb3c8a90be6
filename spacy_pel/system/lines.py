"""Files that are read, plain or gzipped: their bytes, or their numbered lines."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import PelError

# A longer line is no record of an ontology; without a bound, one could fill the memory.
LONGEST_LINE = 64 * 2**20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


@contextmanager
def opened_bytes(path: Path) -> Iterator[IO[bytes]]:
    """A file to read bytes from, unpacked where its name ends in ``.gz``.

    Raises PelError, also while it is read, if it is not there, may not be read, or is damaged.
    """
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            yield file
    except _DAMAGED as error:
        raise PelError(f"{path}: damaged gzip", "fetch it again") from error
    except OSError as error:
        raise PelError(
            f"{path}: cannot be read ({error.strerror})", "check that it is there and may be read"
        ) from error


def numbered_lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[tuple[int, str]]:
    """Pairs of line number (from 1) and line without its end, of a UTF-8 file, ``.gz`` or not.

    Lines end at a line feed alone: ontologies hold stray carriage returns and Unicode separators.
    Raises PelError as ``opened_bytes`` does, and, with file and line, for a line that is not UTF-8 or of
    more than ``longest`` bytes.
    """
    number = 0
    with opened_bytes(path) as file:
        try:
            while line := file.readline(longest + 2):
                number += 1
                line = line.rstrip(b"\r\n")
                if len(line) > longest:
                    raise PelError(
                        f"{path}, line {number}: longer than {longest:,} bytes", "correct the line"
                    )
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                yield number, line.decode()
        except UnicodeDecodeError as error:
            raise PelError(f"{path}, line {number}: not UTF-8", "save the file as UTF-8") from error
        except _DAMAGED as error:
            raise PelError(f"{path}: damaged gzip after line {number}", "fetch it again") from error
