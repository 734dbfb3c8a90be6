"""Describe, compare, copy and export knowledge bases."""

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ..errors import PelError
from ..io.duckdb_session import duckdb_connection
from ..io.whole_files import sha256, whole_folder
from .knowledge_base import KnowledgeBase
from .records.entity import LISTS, SCOPES, Entity
from .records.semantic_types import SemanticType
from .row_sum import row_sum, store_sum
from .store import KB_FILE, connected, vector_files
from .transaction import NAMES_PREFIX, write_checksums

_COUNTS = ("entities", "aliases", "definitions", "alt_ids", "retired_ids", "parents", "xrefs")
_FACTS = ("rows", "index_unit", "dim", "stored_dim", "dtype")
_BATCH_SIZE = 4096  # entities exported at a time
_MAX_LINE_BYTES = 1 << 29  # of a record as JSON


def kb_info(folder: Path) -> dict[str, Any]:
    """Return counts, sources, types, sizes and vectors of a KB by name.

    "scopes" counts the aliases whose scope the sources state. "prefixes" counts the entities by the prefix
    of their ids, and "left_out" the classes that were left out of ontologies. Sizes are in bytes. Facts about
    vectors are None without vectors. "codes" is the number of codes of a PQ4 index. "recall" is that of the
    approximate index at 1 and 64 candidates; None if search is exact. "mentions" are counted by source.
    PelError without an undamaged KB.
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
    """Copy a KB to a folder, with checksums; PelError if a file is damaged or changes meanwhile."""
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
        store_sum(new, row_sum(new))
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


def export_kb(kb: KnowledgeBase, folder: Path) -> dict[str, int]:
    """Export a KB to a new folder as Parquet tables: entities, types, rows (vectors) and mentions.

    Return the number of rows of each. PelError if the folder is not empty or the KB is damaged.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PelError(f"{folder}: exists", "choose an empty or new folder")
    texts = {name: "VARCHAR[]" if name in LISTS else "VARCHAR" for name in Entity._fields}
    types = dict.fromkeys(SemanticType._fields, "VARCHAR")
    places = ("document", "text", "start", "stop", "concept_id")
    kinds = ("VARCHAR", "VARCHAR", "INTEGER", "INTEGER", "VARCHAR")
    mentions = (
        dict(zip(places, (document, text, *mention)))
        for (document, text, placed), _ in kb.mentions.passages()
        for mention in placed
    )
    counts = Counter[str]()
    with whole_folder(folder) as new, duckdb_connection() as database:
        for name, columns, lines in (
            ("entities", texts, (entity._asdict() for entity in kb)),
            ("types", types, (type._asdict() for type in kb.semantic_types)),
            ("rows", {"concept_id": "VARCHAR", "vector": "FLOAT[]"}, _rows(kb)),
            ("mentions", dict(zip(places, kinds)), mentions),
        ):
            source = new / f"{name}.jsonl"  # DuckDB reads lines of JSON
            with source.open("x", encoding="utf8") as file:
                for line in lines:
                    file.write(json.dumps(line) + "\n")
                    counts[name] += 1
            if name in counts:
                table = database.read_json(
                    str(source),
                    columns=columns,
                    format="newline_delimited",
                    maximum_object_size=_MAX_LINE_BYTES,
                )
                table.write_parquet(str(new / f"{name}.parquet"))
            source.unlink()
    return counts


def _rows(kb: KnowledgeBase) -> Iterator[dict[str, Any]]:
    numbers = kb.numbers() if kb.has_vectors else ()
    for start in range(0, len(numbers), _BATCH_SIZE):
        block = numbers[start : start + _BATCH_SIZE]
        ids = [id for id, _ in kb.labels(block)]
        vectors, places = kb.rows(block)
        for place, vector in zip(places.tolist(), vectors.tolist()):
            yield {"concept_id": ids[place], "vector": vector}
