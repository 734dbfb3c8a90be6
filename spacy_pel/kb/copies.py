"""Copies of a knowledge base: in an assembled pipeline, and on the disk of a node of a cluster."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock

from ..system.whole_files import whole_folder
from .folder.checksums import copy_checked
from .folder.manifest import MANIFEST, manifest_text
from .knowledge_base import KnowledgeBase


def copy_kb(kb: KnowledgeBase, folder: Path) -> None:
    """Copy a KB to a folder, and check what is copied on the way.

    Raises:
        PelError: A file was changed since it was written.
        OSError: The copy cannot be written.
    """
    folder.mkdir(exist_ok=True)
    for name, entry in kb.manifest["files"].items():
        copy_checked(kb.path / name, folder / name, entry)
    (folder / MANIFEST).write_bytes(manifest_text(kb.manifest).encode())


def local_copy(kb: KnowledgeBase, folder: Path) -> Path:
    """The copy of a KB in a folder of this computer. The first process that asks makes it.

    Others wait for it. They all open the same files, so their pages are in memory once. The copy is
    named by the KB's checksum: another state of the KB gets a copy of its own.

    Args:
        kb: The KB.
        folder: The folder that holds the copies.

    Raises:
        PelError: A file of the KB was changed since it was written.
        OSError: The copy cannot be written.
    """
    target = folder / f"kb-{kb.manifest['checksum'][:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{target.name}.lock"):
        if not target.exists():
            with whole_folder(target) as new:
                copy_kb(kb, new)
    return target
