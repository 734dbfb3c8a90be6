"""Checks that a KB folder is as it was written."""

from __future__ import annotations

from pathlib import Path

from ..errors import PelError
from .checks import Report, faults
from .knowledge_base import KnowledgeBase
from .settings import JOURNAL, KB_FILE, VECTOR_FILE, plain_file_size, vector_files
from .transaction import CHECKSUMS, checked_settings, is_ours


def verify(path: str | Path, *, progress: Report | None = None) -> list[PelError]:
    """The problems of a KB folder, each with its remedy; an empty list if the KB is whole.

    Every file that has a checksum is read and compared with it: the vectors and their index always,
    the database unless it was changed since it was built, embedded or assembled. Then SQLite checks
    the database, and each record is compared with its own checksum and with the tables of names.

    Args:
        path: The KB folder.
        progress: Called with the number of bytes read since the last call.

    Raises:
        PelError: There is no KB in the folder.
    """
    folder = Path(path).absolute()
    if plain_file_size(folder / KB_FILE) is None:
        checked_settings(folder)  # says what is there instead
    try:
        with KnowledgeBase.open(folder) as kb:
            known = {KB_FILE, CHECKSUMS, *(file["name"] for file in vector_files(kb.settings))}
            foreign = [
                PelError(f"{file}: does not belong to the KB", "move it elsewhere")
                for file in sorted(folder.iterdir())
                if not (file.name in known or file.name == JOURNAL or is_ours(file.name))
                and not VECTOR_FILE.fullmatch(file.name)
            ]
            return [*foreign, *faults(kb, progress)]
    except PelError as error:
        return [error]
