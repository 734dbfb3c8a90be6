"""What ``verify`` checks of a KB: every byte, and what the files say together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import PelError
from .mentions import stored_passages
from .records.names import name_hash, normalised
from .store import (
    JOURNAL,
    KB_FILE,
    Store,
    plain_file_size,
    sha256,
    vector_files,
    wrong_size,
)
from .transaction import CHECKSUMS, is_ours

KnowledgeBase = Any  # which imports this module

COPY_OR_BUILD = "copy the folder again, or build the KB again"

_MODULUS = 101  # so small that no sum overflows
_NAMES = f"SELECT count(*), sum(hash), sum(number), sum(hash * (number % {_MODULUS})) FROM name"
Report = Callable[[int], object]


def faults(kb: KnowledgeBase, progress: Report | None = None) -> Iterator[PelError]:
    """What is wrong with the files of a KB, or, if nothing is, with what they say together."""
    try:
        files = {file["name"]: file for file in vector_files(kb.settings)} | _checksum(kb.path)
        is_whole = True
        for name, file in files.items():
            fault = wrong_size(kb.path / name, file["bytes"])
            if fault is None and sha256(kb.path / name, progress) != file["sha256"]:
                fault = "does not agree with its checksum"
            if fault:
                is_whole = False
                yield PelError(f"{kb.path / name}: {fault}", COPY_OR_BUILD)
        if is_whole:
            yield from _misfits(kb)
    except PelError as error:
        yield error


def foreign_files(folder: Path) -> list[PelError]:
    """The files of a KB's folder that do not belong to it."""
    known = (KB_FILE, JOURNAL, CHECKSUMS)
    return [
        PelError(f"{file}: does not belong to the KB", "move it elsewhere")
        for file in sorted(folder.iterdir())
        if file.name not in known and not is_ours(file.name)
    ]


def _checksum(folder: Path) -> dict[str, dict]:
    """What the checksums say of the database, if it was not changed since."""
    path = folder / CHECKSUMS
    if plain_file_size(path) is None:
        return {}
    try:
        file = json.loads(path.read_bytes())[KB_FILE]
        return {KB_FILE: {"bytes": int(file["bytes"]), "sha256": file["sha256"]}}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PelError(f"{path}: cannot be read", "delete it") from error


def _misfits(kb: KnowledgeBase) -> Iterator[PelError]:
    """What the database says otherwise than its own tables, or than the vectors."""
    path = kb.path / KB_FILE
    with closing(Store(kb.path)) as store:
        for (fault,) in store.read("PRAGMA integrity_check(5)"):
            if fault != "ok":
                yield PelError(f"{path}: {fault}", COPY_OR_BUILD)
                return
        for fault in _wrong_records(store, kb):
            yield PelError(f"{path}: {fault}", "build the KB again")
        if kb.has_vectors:
            live, said = kb.numbers(), kb.settings["vectors"]["rows"]
            n_rows = sum(len(part.rows_of(live)[0]) for part in kb.vectors.parts)
            if n_rows != said:
                fault = f"counts {said} vectors where there are {n_rows}"
                yield PelError(f"{path}: {fault}", COPY_OR_BUILD)
        if kb.mentions:
            n_mentions = sum(len(ids) for _, ids in stored_passages(store))
            if n_mentions != sum(kb.mentions.sources.values()):
                fault = "has another number of mentions than it says"
                yield PelError(f"{path}: {fault}", COPY_OR_BUILD)
            if kb.has_vectors:
                kb.mentions.index  # raises if they do not have a vector each


def _wrong_records(store: Store, kb: KnowledgeBase) -> Iterator[str]:
    """Counts and names of the records that are not what the tables beside them say."""
    names, live = np.zeros(4, dtype=np.int64), set(kb.numbers().tolist())
    for number, entity in store.all_entities(kb.settings["next_number"]):
        for hash in {name_hash(normalised(name)) for name in entity.names}:
            names += (1, hash, number, hash * (number % _MODULUS))
        live.discard(number)
    if live or len(kb) != len(kb.numbers()):
        yield f"counts {len(kb)} entities where there are {len(kb.numbers()) - len(live)}"
    if store.read(_NAMES) != [tuple(names.tolist())]:
        yield "its table of names is not that of its records"
