"""Numbered lines of a text file, plain or gzipped."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from .errors import PelError

# A longer line is no record of an ontology; without a bound, one could fill the memory.
LONGEST_LINE = 64 * 2**20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def numbered_lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[tuple[int, str]]:
    """Pairs of line number (from 1) and line without its end, of a UTF-8 file, ``.gz`` or not.

    Lines end at a line feed alone: ontologies hold stray carriage returns and Unicode separators.
    Raises PelError, with file and line, if the file cannot be opened or decoded, and for a line of
    more than ``longest`` bytes.
    """
    number = 0
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            while line := file.readline(longest + 2):
                number += 1
                line = line.rstrip(b"\r\n")
                if len(line) > longest:
                    raise PelError(
                        f"{path}, line {number}: longer than {longest:,} bytes; correct the line"
                    )
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                yield number, line.decode()
    except UnicodeDecodeError as error:
        raise PelError(f"{path}, line {number}: not UTF-8; save the file as UTF-8") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise PelError(f"{path}: damaged gzip after line {number}; fetch it again") from error
    except OSError as error:
        raise PelError(
            f"{path}: cannot be read ({error.strerror}); check that it is there and may be read"
        ) from error
