"""Files and folders that take their place at the end, whole, or not at all."""

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
    """A file to write to, which replaces the one at the path when the block ends well.

    mode: "x" for UTF-8 text, "xb" for bytes.

    After an error or an interruption, what was at the path is there as before.
    Raises PelError if a folder or a device is there, OSError if the file cannot be written.
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
            os.fsync(file.fileno())  # else a power failure may leave an empty one in its place
        os.replace(temporary, path)
    except OSError as error:
        error.filename = error.filename or str(path)  # a failed write does not name its file
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder to fill, which replaces the one at the path when the block ends well.

    After an error or an interruption, what was at the path is there as before.
    Raises OSError if the folder cannot be written.
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
