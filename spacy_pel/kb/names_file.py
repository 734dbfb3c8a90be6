"""Keep the table of a KB's names in a file of its folder, and use the file only if it is undamaged."""

import glob
from pathlib import Path

import numpy as np

from ..errors import PelError
from ..io.whole_files import sha256
from .store import file_size
from .transaction import published, temporary_path
from .vectors import stored
from .vectors.matrix import mapped

_COLUMNS = {
    "hashes": "<u8",
    "bounds": "<u4",
    "owners": "<i4",
    "preferred": "|b1",
    "lengths": "|u1",
    "beginnings": "|b1",
}
_FORMS_COLUMNS = {**_COLUMNS, "forms": "<u8", "words": "<u8"}


def names_files(folder: Path, stem: str) -> list[Path]:
    """Return the files of a table of names in a KB's folder."""
    return sorted(folder.glob(f"{glob.escape(stem)}-{'[0-9a-f]' * 16}.npy"))


def stored_names(folder: Path, stem: str, count: int, word_forms: bool) -> np.ndarray | None:
    """Return the table of names (``name_table``) in a KB's folder, mapped; None without an undamaged one.

    ``stem`` begins the name of the file. All entities have numbers below ``count``. The checksum of a large
    table is not checked, but its numbers must be in range.
    """
    for path in names_files(folder, stem):
        size = file_size(path)
        try:
            table = mapped(path)
            if size and size <= stored.CHECKED_BYTES and sha256(path)[:16] != path.stem[-16:]:
                continue
        except (PelError, OSError):  # damaged or deleted
            continue
        if _is_valid(table, count, _FORMS_COLUMNS if word_forms else _COLUMNS):
            # Mapped again: what was read for the checks alone leaves memory.
            return mapped(path)
    return None


def store_names(folder: Path, stem: str, table: np.ndarray) -> None:
    """Write a table into a KB's folder; OSError if the folder is not writable."""
    temporary = temporary_path(folder, ".npy")
    try:
        with temporary.open("xb") as file:
            np.save(file, table)
        published(folder, temporary, stem)
    finally:
        temporary.unlink(missing_ok=True)


def _is_valid(table: np.ndarray, count: int, columns: dict[str, str]) -> bool:
    """Return whether a table has these columns, and all its numbers can be looked up."""
    kinds = {name: table.dtype[name] for name in table.dtype.names or ()}
    if table.shape != (1,) or columns != {name: kind.base.str for name, kind in kinds.items()}:
        return False
    if any(len(kind.shape) != 1 for kind in kinds.values()):
        return False
    column = {name: table[name][0] for name in columns}
    size = {name: len(values) for name, values in column.items()}
    bounds, owners = column["bounds"], column["owners"]
    return bool(
        size["lengths"] == size["hashes"] == size["bounds"] - 1
        and size["preferred"] == size["owners"]
        and size.get("forms") == size.get("words")
        and size["beginnings"].bit_count() == 1  # a power of two
        and (bounds[0], bounds[-1]) == (0, len(owners))
        and (not len(owners) or 0 <= owners.min() <= owners.max() < count)
        and all(
            (column[name][1:] > column[name][:-1]).all()
            for name in ("bounds", "hashes", "forms")
            if name in column
        )
    )
