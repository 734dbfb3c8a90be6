"""A small KB that the tests of this room share."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.settings import KB_FILE, vector_files
from spacy_pel.kb.transaction import CHECKSUMS

ENTITIES = [
    Entity("C3", "Multiple sclerosis", ("MS", "Disseminated"), ("Disease",), "A disease."),
    Entity("C1", "Mitral stenosis", ("MS",), ("Disease", "Finding"), None, ("OMIM:1", "D1")),
    Entity("C2", "Mass spectrometry", (), (), None),
    Entity("C10", "Été 日本 🧬", ("β-catenin",), (), "Naïve."),
]
IDS = ["C1", "C10", "C2", "C3"]  # in order of number
VECTORS = np.eye(4, dtype=np.float32)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def names_of(kb: KnowledgeBase) -> set[str]:
    """The files that a KB consists of."""
    return {KB_FILE, CHECKSUMS, *(file["name"] for file in vector_files(kb.settings))}


def edit_settings(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """What a KB says of itself, changed as a writer would that makes a mistake."""
    with closing(sqlite3.connect(folder / KB_FILE)) as database, database:
        (text,) = database.execute("SELECT value FROM setting WHERE name = 'kb'").fetchone()
        settings = json.loads(text)
        edit(settings)
        database.execute("UPDATE setting SET value = ? WHERE name = 'kb'", (json.dumps(settings),))
    (folder / CHECKSUMS).unlink(missing_ok=True)


def execute(folder: Path, sql: str) -> None:
    """Changes the database of a KB."""
    with closing(sqlite3.connect(folder / KB_FILE)) as database, database:
        database.execute(sql)
    (folder / CHECKSUMS).unlink(missing_ok=True)
