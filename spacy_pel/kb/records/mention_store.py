"""Reads the mentions that a KB has learnt from SQLite. ``mention_writing`` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ...system.damaged_files import damaged
from .read_only_database import ReadOnlyDatabase, stored_number, stored_text

MENTION_SCHEMA = """
CREATE TABLE passage (number INTEGER PRIMARY KEY, document TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE entity (number INTEGER PRIMARY KEY, concept_id TEXT NOT NULL);
CREATE TABLE mention (
    row INTEGER PRIMARY KEY,
    entity INTEGER NOT NULL,
    passage INTEGER NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL
);
"""
MENTION_INDEX = "CREATE INDEX mention_passage ON mention (passage);"
_READ = "SELECT row, document, text, start, stop FROM mention JOIN passage ON passage = number"
_BY_PASSAGE = """
SELECT passage, document, text, start, stop, concept_id, row FROM passage
JOIN mention ON passage = passage.number JOIN entity ON entity = entity.number
ORDER BY passage, row
"""


class PassageMention(NamedTuple):
    """A mention in a passage.

    Attributes:
        start: Its first character.
        stop: The character after its last.
        id: The concept id of its entity.
    """

    start: int
    stop: int
    id: str


class MentionPassage(NamedTuple):
    """A text with mentions whose entities are known.

    Attributes:
        document: The id of the document, such as a PMID; "" if it has none.
        text: The text, as a linker reads it.
        mentions: Its mentions.
    """

    document: str
    text: str
    mentions: tuple[PassageMention, ...]


class KnownMention(NamedTuple):
    """A mention that a KB has learnt, in its passage.

    Attributes:
        document: The id of the document.
        text: The text of the passage.
        start: The first character of the mention.
        stop: The character after its last.
    """

    document: str
    text: str
    start: int
    stop: int


class MentionStore(ReadOnlyDatabase):
    """A read-only file of mentions, one for each row of vectors.

    Entities are numbered from 0 in order of concept id. Rows ascend by entity.
    """

    schema = MENTION_SCHEMA + MENTION_INDEX

    def ids(self) -> list[str]:
        """The concept ids of the entities, by number."""
        with self._reading():
            rows = self._connection.execute("SELECT concept_id FROM entity ORDER BY number")
            return [stored_text(id) for (id,) in rows]

    def mentions(self, rows: Sequence[int] | np.ndarray) -> list[KnownMention]:
        """The mentions of these rows, in the same order; PelError if the file lacks one."""
        wanted = np.asarray(rows, dtype=np.int64)
        numbers = json.dumps(np.unique(wanted).tolist())
        query = f"{_READ} WHERE row IN (SELECT value FROM json_each(?))"
        with self._reading():
            found = self._connection.execute(query, (numbers,))
            known = {stored_number(row): self._known(*fields) for row, *fields in found}
        try:
            return [known[row] for row in wanted.tolist()]
        except KeyError as error:
            raise damaged(self.path, f"lacks the mention {error}") from error

    def passages(self) -> Iterator[tuple[MentionPassage, list[int]]]:
        """The passages in order, each with the rows of its mentions."""
        with self._reading():
            found = self._connection.execute(_BY_PASSAGE)
            for _, group in groupby(found, key=itemgetter(0)):
                lines = list(group)
                document, text = lines[0][1:3]
                places = [self._known(*line[1:5]) for line in lines]
                ids = [stored_text(line[5]) for line in lines]
                rows = [stored_number(line[6]) for line in lines]
                placed = tuple(PassageMention(p.start, p.stop, id) for p, id in zip(places, ids))
                yield MentionPassage(document, text, placed), rows

    def row_documents(self) -> np.ndarray:
        """A number of the document of each row: int64 [rows]. Passages with one id are of one."""
        query = (
            "SELECT iif(document = '', passage, min(passage) OVER (PARTITION BY document)) "
            "FROM mention JOIN passage ON passage = number ORDER BY row"
        )
        with self._reading():
            found = self._connection.execute(query)
            return np.array([stored_number(number) for (number,) in found], dtype=np.int64)

    def _known(self, document: object, text: object, start: object, stop: object) -> KnownMention:
        known = KnownMention(
            stored_text(document), stored_text(text), stored_number(start), stored_number(stop)
        )
        if not 0 <= known.start < known.stop <= len(known.text):
            raise ValueError(f"a mention from {start} to {stop} of {len(known.text)} characters")
        return known
