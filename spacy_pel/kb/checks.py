"""What ``verify`` checks of a KB folder: every byte, and what the files say together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol

import numpy as np

from ..errors import PelError
from .mentions import KnownMentions, stored_passages
from .record_writing import count_entity
from .records.names import name_hash, normalised
from .settings import JOURNAL, KB_FILE, VECTOR_FILE, Settings, plain_file_size, sha256, vector_files
from .store import Store
from .stored_vectors import StoredVectors
from .transaction import CHECKSUMS, checked_settings, is_ours

COPY_OR_BUILD = "copy the folder again, or build the KB again"

_MODULUS = 101  # so small that no sum overflows
_NAMES = f"SELECT count(*), sum(hash), sum(number), sum(hash * (number % {_MODULUS})) FROM name"
_REPEATED = """
SELECT concept_id FROM entity WHERE number NOT IN (SELECT number FROM removed WHERE change <= ?)
GROUP BY concept_id HAVING count(*) > 1 LIMIT 5
"""

Report = Callable[[int], object]


class Checked(Protocol):
    """What the checks ask of a KB; see the methods of ``KnowledgeBase``."""

    settings: Settings
    has_vectors: bool
    vectors: StoredVectors
    mentions: KnownMentions

    def numbers(self) -> np.ndarray: ...

    def close(self) -> None: ...


Opener = Callable[[Path], Checked]


def check_contents(path: str | Path, opener: Opener) -> None:
    """Checks a KB as ``verify`` does. Files that do not belong to it are ignored.

    Raises:
        PelError: The first problem.
    """
    for problem in faults(Path(path).absolute(), opener, None):
        raise problem


def faults(folder: Path, opener: Opener, progress: Report | None) -> Iterator[PelError]:
    """What is wrong with the files, or, if nothing is, with what they say together."""
    try:
        settings = checked_settings(folder)
        checksums = _checksums(folder)
        checksums |= {file["name"]: file for file in vector_files(settings)}
        damaged = [
            p for name, file in checksums.items() if (p := _damage(folder / name, file, progress))
        ]
        yield from damaged
        if not damaged:
            yield from _misfits(folder, opener)
    except PelError as error:
        yield error


def _checksums(folder: Path) -> dict[str, dict]:
    """The checksums of a KB that was not changed since they were written."""
    path = folder / CHECKSUMS
    if plain_file_size(path) is None:
        return {}
    try:
        files = json.loads(path.read_bytes())
        return {
            KB_FILE: {"bytes": int(files[KB_FILE]["bytes"]), "sha256": files[KB_FILE]["sha256"]}
        }
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PelError(f"{path}: cannot be read", "delete it") from error


def _damage(path: Path, file: dict, progress: Report | None) -> PelError | None:
    size = plain_file_size(path)
    if size is None:
        return PelError(f"{path}: missing", COPY_OR_BUILD)
    if size != file["bytes"]:
        return PelError(f"{path}: {size} bytes, not {file['bytes']}", COPY_OR_BUILD)
    if sha256(path, progress) != file["sha256"]:
        return PelError(f"{path}: does not agree with its checksum", COPY_OR_BUILD)
    return None


def foreign_files(folder: Path) -> Iterator[PelError]:
    """Files that no writer of KBs makes."""
    try:
        known = {KB_FILE, CHECKSUMS, *(f["name"] for f in vector_files(checked_settings(folder)))}
    except PelError:
        return  # it is named among the faults
    for path in sorted(folder.iterdir()):
        ours = is_ours(path.name) or path.name == JOURNAL or VECTOR_FILE.fullmatch(path.name)
        if path.name not in known and not ours:
            yield PelError(f"{path}: does not belong to the KB", "move it elsewhere")


def _misfits(folder: Path, opener: Opener) -> Iterator[PelError]:
    """What the database says otherwise than its own tables, or than the vectors."""
    path = folder / KB_FILE
    with closing(Store(folder)) as store, closing(opener(folder)) as kb:
        for (fault,) in store.read("PRAGMA integrity_check(5)"):
            if fault != "ok":
                yield PelError(f"{path}: {fault}", COPY_OR_BUILD)
                return
        for fault in _wrong_records(store, kb):
            yield PelError(f"{path}: {fault}", "build the KB again")
        if kb.has_vectors:
            rows = len(kb.vectors.filed.row_entities)
            rows += len(kb.vectors.added.row_entities) if kb.vectors.added else 0
            live = kb.numbers()
            n_rows = sum(len(part.rows_of(live)[0]) for part in kb.vectors.parts)
            if n_rows != kb.settings["vectors"]["rows"] or rows < n_rows:
                said = kb.settings["vectors"]["rows"]
                yield PelError(
                    f"{path}: counts {said} vectors where there are {n_rows}", COPY_OR_BUILD
                )
        if kb.mentions:
            n_mentions = sum(len(ids) for _, ids in stored_passages(store))
            if n_mentions != sum(kb.mentions.sources.values()):
                yield PelError(
                    f"{path}: has another number of mentions than it says", COPY_OR_BUILD
                )
            if kb.has_vectors:
                kb.mentions.index  # raises if they do not have a vector each


def _wrong_records(store: Store, kb: Checked) -> Iterator[str]:
    """Counts, ids and names of the records that are not what the tables beside them say."""
    counts: Counter[str] = Counter()
    live = np.zeros(kb.settings["next_number"], dtype=bool)
    live[kb.numbers()] = True
    names = np.zeros(4, dtype=np.int64)
    for number, entity in store.all_entities(len(live)):
        for hash in {name_hash(normalised(name)) for name in entity.names}:
            names += (1, hash, number, hash * (number % _MODULUS))
        if live[number]:
            count_entity(counts, entity)
    said = {name: count for name, count in kb.settings["counts"].items() if count}
    if said != {name: count for name, count in counts.items() if count}:
        yield f"counts {said['entities']} entities where there are {counts['entities']}"
    if store.read(_NAMES) != [tuple(names.tolist())]:
        yield "its table of names is not that of its records"
    for (id,) in store.read(_REPEATED, kb.settings["change"]):
        yield f"two records have the id {id!r}"
