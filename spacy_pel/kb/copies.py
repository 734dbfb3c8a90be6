"""Copies of a knowledge base: in an assembled pipeline, as tables."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ..errors import PelError
from ..system.duckdb_session import duckdb_connection
from ..system.whole_files import whole_folder
from .knowledge_base import KnowledgeBase
from .mentions import stored_passages
from .records.entity import Entity
from .records.semantic_types import SemanticType
from .store import KB_FILE, Store, connected, sha256, vector_files
from .transaction import write_checksums

_BLOCK = 4096  # entities exported at a time
_LONGEST_LINE = 1 << 29  # bytes of a record as JSON


def copy_kb(kb: KnowledgeBase, folder: Path) -> None:
    """Copy a KB to a folder, with checksums; PelError if a file was changed since it was written."""
    folder.mkdir(exist_ok=True)
    KnowledgeBase.open(kb.path, verify=True).close()
    with closing(connected(kb.path / KB_FILE)) as old:
        with closing(sqlite3.connect(folder / KB_FILE)) as new:
            old.backup(new)
    for file in vector_files(kb.settings):
        shutil.copyfile(kb.path / file["name"], folder / file["name"])
        if sha256(folder / file["name"]) != file["sha256"]:
            raise PelError(f"{kb.path / file['name']}: was changed meanwhile", "run it again")
    write_checksums(folder)


def export_kb(kb: KnowledgeBase, folder: Path) -> dict[str, int]:
    """Write a KB to a new folder as Parquet tables: entities, types, rows (vectors) and mentions.

    The number of lines of each is returned. PelError if the folder is not empty, or a file damaged.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PelError(f"{folder}: exists", "choose an empty or new folder")
    lists = {name for name, default in Entity._field_defaults.items() if default == ()}
    texts = {name: "VARCHAR[]" if name in lists else "VARCHAR" for name in Entity._fields}
    types = dict.fromkeys(SemanticType._fields, "VARCHAR")
    mentions = dict.fromkeys(("document", "text", "concept_id"), "VARCHAR")
    mentions |= dict.fromkeys(("start", "stop"), "INTEGER")
    counts = Counter[str]()
    with whole_folder(folder) as new, duckdb_connection() as database:
        for name, columns, lines in (
            ("entities", texts, (entity._asdict() for entity in kb)),
            ("types", types, (type._asdict() for type in kb.semantic_types)),
            ("rows", {"concept_id": "VARCHAR", "vector": "FLOAT[]"}, _rows(kb)),
            ("mentions", mentions, _mentions(kb)),
        ):
            source = new / f"{name}.jsonl"  # DuckDB reads lines of JSON
            with open(source, "x", encoding="utf8") as file:
                for line in lines:
                    file.write(json.dumps(line) + "\n")
                    counts[name] += 1
            if name in counts:
                form = {"columns": columns, "format": "newline_delimited"}
                read = database.read_json(str(source), maximum_object_size=_LONGEST_LINE, **form)
                read.write_parquet(str(new / f"{name}.parquet"))
            source.unlink()
    return counts


def _rows(kb: KnowledgeBase) -> Iterator[dict[str, Any]]:
    numbers = kb.numbers() if kb.has_vectors else ()
    for start in range(0, len(numbers), _BLOCK):
        block = numbers[start : start + _BLOCK]
        ids = [id for id, _ in kb.labels(block)]
        vectors, places = kb.rows(block)
        for place, vector in zip(places.tolist(), vectors.tolist()):
            yield {"concept_id": ids[place], "vector": vector}


def _mentions(kb: KnowledgeBase) -> Iterator[dict[str, Any]]:
    with closing(Store(kb.path)) as store:
        for (document, text, mentions), _ in stored_passages(store):
            for start, stop, id in mentions:
                line = {"document": document, "text": text, "start": start, "stop": stop}
                yield {**line, "concept_id": id}
