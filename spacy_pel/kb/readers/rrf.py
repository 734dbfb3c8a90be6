"""UMLS Rich Release Format: MRCONSO (names), MRSTY (semantic types), MRDEF (definitions).

The recipe is scispaCy's export: English names that are not suppressed; the preferred name is the
first row with ISPREF=Y, TS=P and STT=PF; a definition of a preferred source goes before others.
"""

from __future__ import annotations

import logging
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from ...errors import PelError
from ..entity import Entity
from .lines import numbered_lines

logger = logging.getLogger(__name__)

CONSO_COLUMNS = (
    "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF".split()
)
STY_COLUMNS = "CUI TUI STN STY ATUI CVF".split()
DEF_COLUMNS = "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF".split()
PREFERRED_DEFINITION_SOURCES = frozenset(
    ("NCI_BRIDG", "NCI_NCI-GLOSS", "NCI", "GO", "MSH", "NCI_FDA")
)

# The kinds of facts about a CUI, best first.
PREFERRED_NAME, NAME, TYPE, PREFERRED_DEFINITION, DEFINITION, SKIPPED = range(6)
Fact = tuple[str, int, str]  # CUI, kind, text


def read_rrf(folder: Path) -> Iterator[Entity]:
    """The entities of a UMLS META folder, in order of CUI; files plain or ``.gz``.

    ``types`` are the sorted names of the semantic types. MRSTY and MRDEF may be absent. A CUI
    without an English name that is not suppressed is skipped, and a log line counts these.
    The rows may stand in any order: they are sorted on disk, in SQLite's temporary files.
    Raises PelError for a missing MRCONSO, and, with file and line, for a missing column.
    """
    conso = _existing(folder, "MRCONSO.RRF")
    if conso is None:
        raise PelError(f"{folder}: holds no MRCONSO.RRF (or .gz); give a UMLS META folder")
    skipped = 0
    try:
        with closing(sqlite3.connect("")) as database:
            database.execute("CREATE TABLE fact (cui TEXT, kind INTEGER, text TEXT)")
            database.executemany("INSERT INTO fact VALUES (?, ?, ?)", _facts(folder, conso))
            facts = database.execute("SELECT * FROM fact ORDER BY cui, kind, rowid")
            for cui, group in groupby(facts, key=itemgetter(0)):
                entity = _entity(cui, group)
                if entity is None:
                    skipped += 1
                else:
                    yield entity
    except sqlite3.OperationalError as error:
        raise PelError(
            f"{folder}: cannot be sorted in {tempfile.gettempdir()} ({error}); "
            "free some space there, or set TMPDIR to a larger folder"
        ) from error
    if skipped:
        logger.warning("%s: skipped %d CUIs without an English name", folder, skipped)


def _entity(cui: str, facts: Iterator[Fact]) -> Entity | None:
    """The entity of the facts about a CUI, or None if they hold no name."""
    texts: dict[int, list[str]] = defaultdict(list)
    for _, kind, text in facts:
        texts[kind].append(text)
    names = list(dict.fromkeys(texts[PREFERRED_NAME] + texts[NAME]))
    if not names:
        return None
    definitions = texts[PREFERRED_DEFINITION] + texts[DEFINITION]
    return Entity(
        concept_id=cui,
        canonical_name=names[0],
        aliases=tuple(names[1:]),
        types=tuple(sorted(set(texts[TYPE]))),
        definition=definitions[0] if definitions else None,
    )


def _facts(folder: Path, conso: Path) -> Iterator[Fact]:
    yield from _names(conso)
    types = _existing(folder, "MRSTY.RRF")
    if types:
        for row in _rows(types, STY_COLUMNS, required=("CUI", "STY")):
            yield row["CUI"], TYPE, row["STY"]
    definitions = _existing(folder, "MRDEF.RRF")
    if definitions:
        for row in _rows(definitions, DEF_COLUMNS, required=("CUI", "DEF")):
            if row["SUPPRESS"] == "N":
                preferred = row["SAB"] in PREFERRED_DEFINITION_SOURCES
                yield row["CUI"], PREFERRED_DEFINITION if preferred else DEFINITION, row["DEF"]


def _names(conso: Path) -> Iterator[Fact]:
    last_skipped = None
    for row in _rows(conso, CONSO_COLUMNS, required=("CUI", "STR")):
        cui = row["CUI"]
        if row["LAT"] == "ENG" and row["SUPPRESS"] == "N":
            preferred = (row["ISPREF"], row["TS"], row["STT"]) == ("Y", "P", "PF")
            yield cui, PREFERRED_NAME if preferred else NAME, row["STR"]
        elif cui != last_skipped:
            last_skipped = cui
            yield cui, SKIPPED, ""


def _rows(path: Path, columns: list[str], required: tuple[str, str]) -> Iterator[dict[str, str]]:
    """The rows of an RRF file as dictionaries; PelError for a row that is not whole."""
    for number, line in numbered_lines(path):
        values = line.split("|")
        if len(values) != len(columns) + 1 or values[-1]:
            raise PelError(
                f"{path}, line {number}: expected {len(columns)} columns, each ended by a bar, "
                f"found {line.count('|')} bars; fetch or unpack the file again"
            )
        row = dict(zip(columns, values))
        for column in required:
            if not row[column].strip():
                raise PelError(f"{path}, line {number}: column {column} is empty; correct the row")
        yield row


def _existing(folder: Path, name: str) -> Path | None:
    candidates = (folder / name, folder / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)
