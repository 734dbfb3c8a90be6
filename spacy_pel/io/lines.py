"""Reads plain and gzipped files: their bytes, their numbered lines, the JSON object of a line."""

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ..errors import PelError

# No record of an ontology is longer. Without a limit, one line or record could fill the memory.
MAX_LINE_BYTES = 64 * 2**20
# A value of JSON is a byte in a file and up to 100 in memory.
MAX_JSON_VALUES = 5_000_000
_BLOCK = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


@contextmanager
def opened_bytes(path: Path) -> Iterator[IO[bytes]]:
    """A file to read bytes from, unpacked if its name ends in ``.gz``.

    PelError if it is missing, may not be read or is damaged: here, or while it is read.
    """
    opener = gzip.open if is_gzip(path) else open
    try:
        with opener(path, "rb") as file:
            yield file
    except _DAMAGED as error:
        raise PelError(f"{path}: damaged gzip", "fetch it again") from error
    except OSError as error:
        remedy = "check that it exists and that you may read it"
        raise PelError(f"{path}: cannot be read ({error.strerror})", remedy) from error


def is_gzip(path: Path) -> bool:
    """Whether a file is read as gzip: its name ends in ``.gz``."""
    return path.name.lower().endswith(".gz")


def check_gzip(path: Path) -> None:
    """Raise PelError for a gzip file that is missing or damaged: DuckDB ignores its checksums.

    It takes a second or less for 100 MB. A file that is not gzip is not read.
    """
    if is_gzip(path):
        with opened_bytes(path) as file:
            while file.read(_BLOCK):
                pass


def record_too_long(path: Path, line: int) -> PelError:
    """The error for a record of many lines that has more than MAX_LINE_BYTES bytes at this line."""
    problem = f"{path}, line {line}: a record of more than {MAX_LINE_BYTES:,} bytes"
    return PelError(problem, "split it")


def numbered_lines(path: Path, longest: int = MAX_LINE_BYTES) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, plain or ``.gz``, without their ends, numbered from 1.

    Only a line feed ends a line, because ontologies contain stray carriage returns and Unicode
    separators. PelError as of ``opened_bytes``, and for a line that is not UTF-8 or too long.
    """
    number = 0
    with opened_bytes(path) as file:
        try:
            while line := file.readline(longest + 2):
                number += 1
                line = line.rstrip(b"\r\n")
                if len(line) > longest:
                    problem = f"{path}, line {number}: longer than {longest:,} bytes"
                    raise PelError(problem, "correct the line")
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                yield number, line.decode()
        except UnicodeDecodeError as error:
            raise PelError(f"{path}, line {number}: not UTF-8", "save the file as UTF-8") from error
        except _DAMAGED as error:
            raise PelError(f"{path}: damaged gzip after line {number}", "fetch it again") from error


def json_object(line: str) -> dict[str, Any]:
    """The JSON object of a line; ValueError, which says why, if it holds none.

    It has at most MAX_JSON_VALUES values, and no halves of characters (lone surrogates).
    """
    # A value begins a list or an object, or follows a comma or a colon; strings may have these too.
    if sum(map(line.count, "[{,:")) > MAX_JSON_VALUES:
        raise ValueError(f"JSON of more than {MAX_JSON_VALUES:,} values")
    try:
        record = json.loads(line)
        if r"\ud" in line or r"\uD" in line:
            json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise ValueError(f"{half} is half of a character (a lone surrogate)") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"bad JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise ValueError("bad JSON (nested too deeply)") from error
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record
