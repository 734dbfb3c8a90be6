"""Writes files and folders that appear as a whole at the end, or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import PelError


@contextmanager
def whole_file(path: Path, mode: str = "x") -> Iterator[IO]:
    """A file to write to. It replaces the file at the path when the block ends without an error.

    After an error or an interruption, the path holds what it held before.

    Args:
        path: The path.
        mode: "x" for UTF-8 text, "xb" for bytes.

    Raises:
        PelError: The path is a folder or a device.
        OSError: The file cannot be written.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise PelError(f"{path}: is a folder or a device", "give the path of a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        as_text = {} if "b" in mode else {"encoding": "utf8", "newline": "\n"}
        with open(temporary, mode, **as_text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # otherwise a power failure may leave an empty file
        os.replace(temporary, path)
    except OSError as error:
        error.filename = error.filename or str(path)  # the error of a failed write names no file
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder to fill. It replaces what is at the path when the block ends without an error.

    After an error or an interruption, the path holds what it held before.

    Raises:
        OSError: The folder cannot be written.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, replaced = _beside(path), _beside(path)
    try:
        temporary.mkdir()
        yield temporary
        if path.exists():
            path.rename(replaced)
        temporary.rename(path)
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
    finally:
        if replaced.exists() and not path.exists():
            replaced.rename(path)
        for folder in (temporary, replaced):
            shutil.rmtree(folder, ignore_errors=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
