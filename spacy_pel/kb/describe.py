"""Describe and copy knowledge bases."""

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from ..errors import PelError
from ..io.whole_files import sha256
from .knowledge_base import KnowledgeBase
from .records.entity import SCOPES
from .store import KB_FILE, connected, vector_files
from .transaction import NAMES_PREFIX, write_checksums

_COUNTS = ("entities", "aliases", "definitions", "alt_ids", "retired_ids", "parents", "xrefs")
_FACTS = ("rows", "index_unit", "dim", "stored_dim", "dtype")


def kb_info(folder: Path) -> dict[str, Any]:
    """Return counts, sources, types, sizes, and facts about vectors of a KB, by name.

    "scopes" counts the aliases whose scope the sources state. "prefixes" counts the entities by the prefix
    of their ids, and "left_out" the classes that were left out of ontologies. Sizes are in bytes. Facts about
    vectors are None without vectors. "codes" is the number of codes of the index. "recall" is that of the
    approximate index at 1 and 64 candidates; None if search is exact. "mentions" are counted by source.

    Raises:
        PelError: The folder has no KB, or a damaged one.
    """
    with KnowledgeBase.open(folder) as kb:
        settings, types, n_bytes = kb.settings, kb.semantic_types, kb.n_bytes()
        prefixes = kb.prefixes()
        mentions = kb.mentions.counts()
    vectors = settings["vectors"] or {}
    index = vectors.get("found_by")
    return {
        "path": str(kb.path),
        "created_by": settings["created_by"],
        "sources": settings["sources"],
        **{name: settings["counts"][name] for name in _COUNTS},
        "scopes": {s: settings["counts"].get(f"{s}_names", 0) for s in SCOPES},
        "prefixes": prefixes or None,
        "left_out": dict(Counter(settings.get("left_out")).most_common()) or None,
        "types": [type.name for type in types],
        "removed": settings["next_number"] - len(kb),
        "bytes": n_bytes,
        **{name: vectors.get(name) for name in _FACTS},
        "index": (index["kind"] if index else "exact") if vectors else None,
        "codes": index.get("codes") if index else None,
        "recall": index["recall"] if index else None,
        "fingerprint": vectors.get("fingerprint"),
        "mentions": mentions or None,
    }


def copy_kb(kb: KnowledgeBase, folder: Path) -> None:
    """Copy a KB to a folder, with checksums. PelError if a file is damaged or changes meanwhile."""
    folder.mkdir(exist_ok=True)
    KnowledgeBase.open(kb.path, verify=True).close()
    with (
        closing(connected(kb.path / KB_FILE)) as old,
        closing(sqlite3.connect(folder / KB_FILE, isolation_level=None)) as new,
    ):
        old.backup(new)
        # Replaced vectors are kept for readers that have the KB open. The copy has none.
        used = json.dumps([file["name"] for file in vector_files(kb.settings)])
        for table, column in ("vectors", "name"), ("row", "vectors"):
            unused = f"{column} NOT IN (SELECT value FROM json_each(?))"
            new.execute(f"DELETE FROM {table} WHERE {unused}", (used,))
        # Changes write the words of their records apart, and each look-up reads all parts.
        new.execute("INSERT INTO word (word) VALUES ('optimize')")
        new.execute("VACUUM")
    for file in vector_files(kb.settings):
        shutil.copyfile(kb.path / file["name"], folder / file["name"])
        if sha256(folder / file["name"]) != file["sha256"]:
            raise PelError(f"{kb.path / file['name']}: was changed meanwhile", "run it again")
    write_checksums(folder)


def copy_names(kb: KnowledgeBase, folder: Path) -> None:
    """Copy the table of a KB's names to a copy of the KB; the first document would wait for it."""
    for table in kb.path.glob(f"{NAMES_PREFIX}{kb.settings['checksum'][:16]}*"):
        shutil.copyfile(table, folder / table.name)
