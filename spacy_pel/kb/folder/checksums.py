"""Compares the files of a KB with the checksums in its manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ...errors import PelError
from .manifest import plain_file_size

COPY_OR_BUILD = "copy the folder again, or build the KB again"
_BLOCK = 1 << 20


def sha256(path: Path, progress: Callable[[int], object] | None = None) -> str:
    """The SHA-256 of a file's content, in hexadecimal.

    Args:
        path: The file.
        progress: Called with the number of bytes read since the last call.
    """
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            if progress:
                progress(len(block))
    return digest.hexdigest()


def damage(
    path: Path, entry: Mapping[str, Any], progress: Callable[[int], object] | None = None
) -> PelError | None:
    """What is wrong with a file of a KB; None if nothing is.

    Args:
        path: The file.
        entry: What the manifest says of it.
        progress: Called with the number of bytes read since the last call.
    """
    try:
        size = plain_file_size(path)
    except PelError as error:
        return error
    if size is None:
        return PelError(f"{path}: missing", COPY_OR_BUILD)
    if size != entry["bytes"]:
        return PelError(f"{path}: {size} bytes, not {entry['bytes']}", COPY_OR_BUILD)
    if sha256(path, progress) != entry["sha256"]:
        return _disagrees(path)
    return None


def check_files(folder: Path, files: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> None:
    """Checks files whose content is to be copied, so that damage gets no fresh checksum.

    Args:
        folder: The KB folder.
        files: The files of its manifest.
        names: Those to check.

    Raises:
        PelError: A file was changed since it was written, or is missing.
    """
    for name in dict.fromkeys(names):
        if fault := damage(folder / name, files[name]):
            raise fault


def copy_checked(source: Path, target: Path, entry: Mapping[str, Any]) -> None:
    """Copies a file of a KB, and checks what it copies on the way.

    Args:
        source: The file.
        target: The path of the copy.
        entry: What the manifest says of the file.

    Raises:
        PelError: The file was changed since it was written. The copy must then not be used.
    """
    digest = hashlib.sha256()
    with open(source, "rb") as file, open(target, "xb") as copy:
        while block := file.read(_BLOCK):
            digest.update(block)
            copy.write(block)
    if digest.hexdigest() != entry["sha256"]:
        raise _disagrees(source)


def _disagrees(path: Path) -> PelError:
    return PelError(f"{path}: does not agree with its checksum", COPY_OR_BUILD)
