"""Writes the file of mentions that ``mention_store`` reads, from passages in any number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from .mention_store import MENTION_INDEX, MENTION_SCHEMA, MentionPassage

# There is no journal, because an unfinished file is thrown away.
_QUICK = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
_ARRIVED = (
    "CREATE TEMP TABLE arrived (passage INTEGER, start INTEGER, stop INTEGER, concept_id TEXT)"
)
_ENTITIES = """
INSERT INTO entity SELECT row_number() OVER (ORDER BY concept_id) - 1, concept_id
FROM (SELECT DISTINCT concept_id FROM arrived) ORDER BY concept_id
"""
_MENTIONS = """
INSERT INTO mention
SELECT row_number() OVER (ORDER BY number, passage, start, stop) - 1, number, passage, start, stop
FROM arrived JOIN entity USING (concept_id) ORDER BY number, passage, start, stop
"""
_COUNTS = "SELECT (SELECT count(*) FROM entity), (SELECT count(*) FROM mention)"


def write_mentions(path: Path, passages: Iterable[MentionPassage]) -> tuple[int, int]:
    """Writes mentions, numbered in order of concept id, passage and place.

    Memory does not grow with the number of passages.

    Args:
        path: The file to write.
        passages: The passages. Those without a mention are left out.

    Returns:
        The number of entities, and the number of mentions.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript(_QUICK + MENTION_SCHEMA + _ARRIVED)
        database.execute("BEGIN")
        database.executemany(
            "INSERT INTO arrived VALUES (?, ?, ?, ?)", _written(database, passages)
        )
        database.execute(_ENTITIES)
        database.execute(_MENTIONS)
        database.execute(MENTION_INDEX)
        database.execute("COMMIT")
        entities, rows = database.execute(_COUNTS).fetchone()
        return entities, rows


def _written(
    database: sqlite3.Connection, passages: Iterable[MentionPassage]
) -> Iterator[tuple[int, int, int, str]]:
    """Writes the passages that have mentions; gives their mentions."""
    kept = (passage for passage in passages if passage.mentions)
    for number, (document, text, mentions) in enumerate(kept):
        database.execute("INSERT INTO passage VALUES (?, ?, ?)", (number, document, text))
        for start, stop, id in dict.fromkeys(mentions):
            yield number, start, stop, id
