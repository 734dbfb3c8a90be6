"""Opens a KB that release 0.1 put into a packaged pipeline, by writing it once in today's form.

It goes with the next packaged pipeline, which holds a KB of today's form. Only what such a package has
is read: one segment, nothing removed, no learnt mentions.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from filelock import FileLock

from ..errors import PelError
from ..system.whole_files import whole_folder
from .change import build_kb
from .records.semantic_types import SemanticType
from .settings import OLD_FILE, OLD_MANIFEST, plain_file_size, sha256
from .store import FIELDS, record_crc, stored_entity
from .transaction import write_checksums, writing
from .vectors.matrix import mapped

logger = logging.getLogger(__name__)

# A file may come from a stranger: its schema may call no functions, and no view may run for ever.
_UNTRUSTED = "PRAGMA trusted_schema = OFF; PRAGMA query_only = ON;"
_ENTITIES = f"SELECT {FIELDS} FROM entity ORDER BY number"
_TABLES = "SELECT count(*) FROM sqlite_schema WHERE name IN ('entity', 'semantic_type') AND type = 'table'"


def converted(folder: Path) -> Path:
    """The folder of a copy, in today's form, of a KB that an earlier release wrote.

    The copy is made once, in the cache of this user (XDG_CACHE_HOME), and is named by a hash of the
    old manifest. PelError if the KB is damaged, or has a form that no package had.
    """
    text = (folder / OLD_MANIFEST).read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spacy-pel"
    target = cache / f"kb-{hashlib.sha256(text).hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f"{target.name}.lock"):
        if not target.exists():
            logger.info("%s has the form of an earlier release: copying it to %s", folder, target)
            manifest = _checked_manifest(folder, text)
            with whole_folder(target) as new:
                _write(folder, manifest, new)
    return target


def _checked_manifest(folder: Path, text: bytes) -> dict[str, Any]:
    """The old manifest; PelError unless it is of a packaged KB and its files are as they were."""
    try:
        manifest = json.loads(text)
        [segment] = manifest["segments"]
        if segment["removed"] is not None or manifest.get("mentions"):
            raise ValueError("it was changed after it was built")
        names = {segment["records"], *_vector_files(segment).values()}
        for name in names:
            file = manifest["files"][name]
            if not OLD_FILE.fullmatch(name) or plain_file_size(folder / name) != file["bytes"]:
                raise ValueError(f"{name} is missing or has another size")
            if sha256(folder / name) != file["sha256"]:
                raise ValueError(f"{name} does not agree with its checksum")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PelError(
            f"{folder}: a knowledge base in the form of an earlier release cannot be read ({error})",
            f"build it anew: python -m spacy pel kb build SOURCE {folder}",
        ) from error
    return manifest


def _vector_files(segment: dict[str, Any]) -> dict[str, str]:
    """The names of the files of vectors that there are, by what they hold."""
    vectors = segment["vectors"] or {}
    files = {key: vectors.get(key) for key in ("file", "scales_file", "rows_file", "basis_file")}
    files["index"] = (vectors.get("index") or {}).get("file")
    return {key: name for key, name in files.items() if name}


def _write(folder: Path, manifest: dict[str, Any], new: Path) -> None:
    [segment] = manifest["segments"]
    records = folder / segment["records"]
    types = _rows(records, "SELECT name, code, tree_number FROM semantic_type ORDER BY rowid")
    build_kb(
        (stored_entity(record_crc(row), *row) for row in _rows(records, _ENTITIES)),
        new,
        types=[SemanticType(*row) for row in types],
        sources=manifest["sources"],
    ).close()
    if not segment["vectors"]:
        return
    about, vectors, files = manifest["vectors"], segment["vectors"], _vector_files(segment)
    index = dict(vectors["index"] or {})
    with writing(new) as change:
        entries = {}
        for key in files.keys() & {"file", "index"}:
            shutil.copyfile(folder / files[key], new / files[key])
            entries[key] = {"name": files[key], **manifest["files"][files[key]]}
        owners, scales, axes = (
            mapped(folder / files[key]) if key in files else None
            for key in ("rows_file", "scales_file", "basis_file")
        )
        found_by = {
            k: index[k] for k in ("kind", "codes", "oversampling", "probes", "recall") if k in index
        }
        with change.transaction():
            blobs = [
                None if array is None else array.astype("<f4").tobytes() for array in (scales, axes)
            ]
            change.database.execute(
                "INSERT INTO vectors VALUES (?, ?, NULL, ?, ?)",
                (files["file"], owners.astype("<i4").tobytes(), *blobs),
            )
            change.settings["created_by"] = manifest["created_by"]
            change.settings["checksum"] = manifest["checksum"]
            change.settings["vectors"] = {
                **{key: about[key] for key in ("dim", "dtype", "row_kind", "fingerprint")},
                "index": about.get("index", "auto"),
                "memory": index.get("memory", 1 << 31),
                "alike": index.get("alike"),
                "file": entries["file"],
                "stored_dim": axes.shape[1] if axes is not None else about["dim"],
                "stored_rows": len(owners),
                "rows": len(owners),
                "found_by": {**found_by, "file": entries["index"]} if index else None,
            }
    write_checksums(new)


def _rows(path: Path, query: str) -> Iterator[tuple]:
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            database.executescript(_UNTRUSTED)
            if database.execute(_TABLES).fetchone() != (2,):
                raise ValueError("its tables are not those of a KB")
            yield from database.execute(query)
    except (sqlite3.DatabaseError, ValueError, TypeError) as error:
        raise PelError(f"{path}: cannot be read ({error})", "install the package again") from error
