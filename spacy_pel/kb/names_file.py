"""The table of a KB's names as a file of its folder, which is only used if it is as it was written."""

import glob
from pathlib import Path

import numpy as np

from ..errors import PelError
from ..io.whole_files import sha256
from .store import plain_file_size
from .transaction import published, temporary_path
from .vectors import stored
from .vectors.matrix import mapped

_ASCENDING = {"hashes": "<u8", "words": "<u8"}
_COLUMNS = {
    **_ASCENDING,
    "bounds": "<u4",
    "owners": "<i4",
    "preferred": "|b1",
    "lengths": "|u1",
    "beginnings": "|b1",
    "meant": "<u8",
}
_OF_ORDER = ("words", "meant")  # of a KB whose names are found in any order of their words


def names_files(folder: Path, stem: str) -> list[Path]:
    """The files of a table of names in a KB's folder."""
    return sorted(folder.glob(f"{glob.escape(stem)}-{'[0-9a-f]' * 16}.npy"))


def stored_names(folder: Path, stem: str, count: int, in_any_order: bool) -> np.ndarray | None:
    """The table of names (``name_table``) in a KB's folder, mapped; None if there is none that is whole.

    ``stem`` begins the name of its file, and ``count`` is above the numbers of all entities. A table is
    compared with its checksum, unless it is large, and each of its numbers must be in its range. PelError
    if the file is a link.
    """
    for path in names_files(folder, stem):
        size = plain_file_size(path)
        try:
            table = mapped(path)
            if size and size <= stored.CHECKED_BYTES and sha256(path)[:16] != path.stem[-16:]:
                continue
        except (PelError, OSError):  # damaged, or swept meanwhile
            continue
        if _fits(table, count, in_any_order):
            return table
    return None


def store_names(folder: Path, stem: str, table: np.ndarray) -> None:
    """Put a table into a KB's folder, as a whole; OSError if that cannot be written to."""
    temporary = temporary_path(folder, ".npy")
    try:
        with open(temporary, "xb") as file:
            np.save(file, table)
        published(folder, temporary, stem)
    finally:
        temporary.unlink(missing_ok=True)


def _fits(table: np.ndarray, count: int, in_any_order: bool) -> bool:
    """Whether a table has the columns of ``name_table``, and only numbers that may be looked up."""
    expected = {
        name: kind for name, kind in _COLUMNS.items() if in_any_order or name not in _OF_ORDER
    }
    kinds = {name: table.dtype[name] for name in table.dtype.names or ()}
    if table.shape != (1,) or expected != {name: kind.base.str for name, kind in kinds.items()}:
        return False
    column = {name: table[name][0] for name in expected}
    sizes = {name: len(values) for name, values in column.items() if values.ndim == 1}
    if len(sizes) < len(column):
        return False
    hashes, bounds, owners = column["hashes"], column["bounds"], column["owners"]
    slots = sizes["beginnings"]
    return (
        sizes["lengths"] == len(hashes)
        and sizes["preferred"] == len(owners)
        and len(bounds) == len(hashes) + 1
        and sizes.get("words") == sizes.get("meant")
        and slots > 0
        and slots & (slots - 1) == 0  # a power of two
        and bounds[0] == 0
        and bounds[-1] == len(owners)
        and bool((bounds[1:] > bounds[:-1]).all())
        and (not len(owners) or 0 <= owners.min() <= owners.max() < count)
        and all(
            bool((column[name][1:] > column[name][:-1]).all())
            for name in _ASCENDING
            if name in column
        )
    )
