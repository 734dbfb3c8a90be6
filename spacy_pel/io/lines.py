"""Read plain and compressed files: their bytes, their numbered lines, and the JSON object of a line."""

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from ..errors import PelError

# The limit of a line or record, so that none exhausts the memory. All records of ontologies are shorter.
MAX_LINE_BYTES = 64 * 2**20
_BLOCK = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


@contextmanager
def opened_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read its bytes, decompressed if it is a ``.gz``.

    Raises:
        PelError: The file is missing, may not be read or is damaged: here, or in the block.
    """
    try:
        with cast(IO[bytes], gzip.open(path)) if is_gzip(path) else path.open("rb") as file:
            yield file
    except _DAMAGED as error:
        raise PelError(f"{path}: damaged gzip", "fetch it again") from error
    except OSError as error:
        remedy = "check that it exists and that you may read it"
        raise PelError(f"{path}: cannot be read ({error.strerror})", remedy) from error


def is_gzip(path: Path) -> bool:
    """Return whether the name of a file ends in ``.gz``."""
    return path.name.lower().endswith(".gz")


def check_gzip(path: Path) -> None:
    """Check a gzip file, because DuckDB ignores its checksums. It takes at most a second for 100 MB.

    Raises:
        PelError: The file is missing or damaged. A file without the suffix ``.gz`` is not read.
    """
    if is_gzip(path):
        with opened_bytes(path) as file:
            while file.read(_BLOCK):
                pass


def record_too_long(path: Path, line: int) -> PelError:
    """Return the error for a record that exceeds MAX_LINE_BYTES at this line."""
    problem = f"{path}, line {line}: a record of more than {MAX_LINE_BYTES:,} bytes"
    return PelError(problem, "split it")


def numbered_lines(path: Path, longest: int = MAX_LINE_BYTES) -> Iterator[tuple[int, str]]:
    """Yield the lines of a plain or compressed UTF-8 file without their ends, with numbers from 1.

    Only a line feed ends a line, because ontologies contain stray carriage returns and Unicode
    separators.

    Raises:
        PelError: A line is not UTF-8 or too long; or as in ``opened_bytes``.
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
            problem = f"{path}: damaged gzip after line {number}"
            raise PelError(problem, "fetch it again") from error


def json_object(line: str) -> dict[str, Any]:
    """Return the JSON object of a line.

    Raises:
        ValueError: The line is no JSON object, or has half of a character (a lone surrogate).
    """
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
