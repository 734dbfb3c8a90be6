"""The mentions that a KB has learnt: their texts, which are near a query, and what they add to a score.

A mention belongs to an id, and counts while the KB has that id. It is nearer to other mentions than to
any name: in one index, names would no longer count. So the two kinds of rows are searched apart:

    score = best name + weight * max(0, closeness - level)
    closeness = log(sum of exp(SHARPNESS * s) over its mentions among the NEAREST) / SHARPNESS

So many mentions that are near count for more than one: what a word mostly means is more probable.
``weight`` and ``level`` are fitted to mentions (``curation.learn_mentions``).
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import PelError
from .store import Settings, Store, stored_text
from .vectors.index import Candidates, VectorIndex
from .vectors.stored import StoredVectors

NEAREST = 256  # mentions of a query that count
SHARPNESS = 20.0  # 1: all mentions count alike; very high: only the nearest one counts
_DEPTH = 64  # entities found by their names, at least
_QUERIES = 1024  # searched at a time, which limits the memory of a search
_OF_STATE = ("counts", "fingerprint", "changed")  # what a KB says of its mentions, but their weight
_JOINED = "FROM mention JOIN passage ON passage.id = passage"


class PassageMention(NamedTuple):
    """A mention in a passage, from one character up to another, and the concept id of its entity."""

    start: int
    stop: int
    id: str


class MentionPassage(NamedTuple):
    """A text, as a linker reads it, with mentions whose entities are known."""

    document: str  # the id of its document, such as a PMID; "" if it has none
    text: str
    mentions: tuple[PassageMention, ...]


class KnownMention(NamedTuple):
    """A mention that a KB has learnt: its source, the id of its document, its passage and its place there."""

    source: str
    document: str
    text: str
    start: int
    stop: int


class MentionWeight(NamedTuple):
    """What one unit of closeness adds to the score, and the closeness from which mentions count."""

    weight: float
    level: float


class MentionRows(NamedTuple):
    """The mentions of a KB whose entities it has, in order of entity: [rows]."""

    ids: np.ndarray  # in the database, int64
    numbers: np.ndarray  # of their entities, int64, ascending
    sources: np.ndarray  # texts
    documents: np.ndarray  # numbers of their documents, int64; without an id it is the passage


class NearMentions(NamedTuple):
    """The mentions nearest to n queries, nearest first: [n, m]; -inf and -1 for no mention."""

    scores: np.ndarray  # float32
    numbers: np.ndarray  # of their entities, int64
    rows: np.ndarray  # int64


class KnownMentions:
    """The mentions that a KB has learnt, as far as it has their entities."""

    def __init__(
        self, store: Store, settings: Settings, is_live: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        self._about: dict[str, Any] = settings["mentions"] or {}
        mentions = self._about
        # The mentions of each source, whether the KB has their entities or not.
        self.sources: dict[str, int] = mentions.get("counts", {})
        self.weight = MentionWeight(mentions.get("weight", 0.0), mentions.get("level", 0.0))
        self.fingerprint: str | None = mentions.get("fingerprint")  # of what read them
        self._dim = settings["vectors"]["dim"] if settings["vectors"] else 0
        self._store = store
        self._is_live = is_live  # of numbers of entities, int64 [n]: which of them the KB has

    def __bool__(self) -> bool:
        return bool(self.sources)

    def check_fingerprint(self, fingerprint: str, folder: Path) -> None:
        """Raises PelError unless what has this fingerprint read the mentions of a KB's folder."""
        if self.fingerprint != fingerprint:
            problem = f"{folder}: another encoder read the mentions that it has learnt"
            raise PelError(problem, f"run: python -m spacy pel kb embed {folder} PIPELINE")

    def counts(self) -> dict[str, int]:
        """The number of mentions of each source whose entity the KB has."""
        found = Counter(self.rows.sources.tolist())
        return {source: found[source] for source in self.sources}

    def search(
        self, stored: StoredVectors, vectors: np.ndarray, k: int, allowed: np.ndarray | None
    ) -> Candidates:
        """The k best entities of each query, by their names and their mentions; see ``StoredVectors``."""
        weight, level = self.weight
        found = []
        for start in range(0, max(1, len(vectors)), _QUERIES):
            queries = vectors[start : start + _QUERIES]
            names = stored.search(queries, max(k, _DEPTH), allowed)
            near = self.nearest(queries, NEAREST, allowed)
            lines, numbers, by_name, closeness = scored_pairs(stored, queries, names, near, level)
            bonus = weight * np.maximum(closeness - level, 0)
            scores = by_name + bonus.astype(np.float32)
            found.append(stored.best(len(queries), lines, numbers, scores, k))
        return Candidates(*(np.concatenate(each) for each in zip(*found)))

    def nearest(
        self, vectors: np.ndarray, m: int, allowed: np.ndarray | None = None
    ) -> NearMentions:
        """The m mentions nearest to each query, float32 [n, dim], of the allowed entities or of all."""
        scores, rows = self.index.best_rows(vectors, m, allowed)
        return NearMentions(scores, np.append(self.rows.numbers, -1)[rows], rows)

    def nearest_of(self, vectors: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The row of the mention of each candidate that is nearest to its query; -1 if none counts.

        Queries are float32 [n, dim], numbers of candidates int64 [n, k], -1 for none.
        """
        rows = np.full(numbers.shape, -1, dtype=np.int64)
        lines, columns = np.nonzero(numbers >= 0)
        scores, best = self.index.best_rows_of(vectors, lines, numbers[lines, columns])
        rows[lines, columns] = np.where(scores > self.weight.level, best, -1)
        return rows

    def described(self, rows: Sequence[int] | np.ndarray) -> list[KnownMention]:
        """The mention of each row, in the same order."""
        query = (
            "SELECT source, document, text, start, stop FROM json_each(?) "
            "LEFT JOIN mention ON mention.id = value LEFT JOIN passage ON passage.id = passage ORDER BY key"
        )
        ids = json.dumps(self.rows.ids[np.asarray(rows, dtype=np.int64)].tolist())
        return self._read(query, ids, make=_known)

    def passages(self) -> list[tuple[MentionPassage, list[int]]]:
        """The passages in order, each with the ids that its mentions have in the database."""
        # To SQLite 3.45 and later a blob among the values of an array is JSON in another form.
        text = "iif(typeof(concept_id) = 'text', concept_id, NULL)"
        query = (
            f"SELECT document, text, json_group_array(json_array(start, stop, {text}, of)) "
            f"FROM (SELECT mention.id AS of, * {_JOINED} ORDER BY passage, of) GROUP BY passage"
        )

        def passage(document: str, text: str, mentions: str) -> tuple[MentionPassage, list[int]]:
            *placed, ids = zip(*json.loads(mentions))
            for start, stop, concept_id in zip(*placed):
                _known("", document, text, start, stop)
                stored_text(concept_id)
            return MentionPassage(document, text, tuple(map(PassageMention, *placed))), list(ids)

        return self._read(query, make=passage)

    def _read(
        self, query: str, *parameters: object, make: Callable[..., Any] = lambda *row: row
    ) -> list[Any]:
        """As of ``Store``; PelError if mentions were learnt or forgotten since the KB was opened."""
        rows = self._store.read(query, *parameters)
        now = "SELECT json_extract(value, '$.mentions') FROM setting WHERE name = 'kb'"
        with self._store.reading():
            [[text]] = self._store.read(now)
            about = json.loads(text or "{}")
            if any(about.get(key) != self._about.get(key) for key in _OF_STATE):
                problem = f"{self._store.path}: its mentions were changed meanwhile"
                raise PelError(problem, "open the KB again, or refresh it")
            return [make(*row) for row in rows]

    @cached_property
    def index(self) -> VectorIndex:
        """The index of the mentions, which looks at each."""
        mentions = "json_each(?) LEFT JOIN mention ON mention.id = value"
        ids = json.dumps(self.rows.ids.tolist())
        found = self._read(f"SELECT vector FROM {mentions} ORDER BY key", ids)
        with self._store.reading():
            content = b"".join(vector or b"" for (vector,) in found)
            rows = np.frombuffer(content, "<f4").reshape(len(found), self._dim)
        return VectorIndex.from_vectors(rows, self.rows.numbers)

    @cached_property
    def rows(self) -> MentionRows:
        """What is known of each row but its vector."""
        found = self._read(
            "SELECT mention.id, number, source, iif(document = '', passage, 'of ' || document) "
            f"{_JOINED} JOIN entity USING (concept_id) ORDER BY number, mention.id"
        )
        columns = list(zip(*found)) or [()] * 4
        with self._store.reading():
            ids, numbers = (np.array(column, dtype=np.int64) for column in columns[:2])
            sources, documents = (np.array(column, dtype=str) for column in columns[2:])
        documents = np.unique(documents, return_inverse=True)[1]
        live = self._is_live(numbers)
        return MentionRows(*(column[live] for column in (ids, numbers, sources, documents)))


def scored_pairs(
    stored: StoredVectors,
    vectors: np.ndarray,
    names: Candidates,
    near: NearMentions,
    level: float = -np.inf,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of a query and an entity that its names find, or mentions closer than ``level``.

    The query, ascending; the number of the entity; the score of its names, float32; the closeness of
    its mentions, float64, -inf without any: [n].
    """
    lines, places = np.nonzero(names.numbers >= 0)
    found = names.numbers[lines, places]
    of, numbers, close = mention_pairs(near)
    size = max(found.max(initial=0), numbers.max(initial=0)) + 1
    named, mentioned = lines * size + found, (of * size + numbers)[close > level]
    keys = np.union1d(named, mentioned)
    by_name, closeness = np.full(len(keys), -np.inf, np.float32), np.full(len(keys), -np.inf)
    closeness[np.searchsorted(keys, mentioned)] = close[close > level]
    by_name[np.searchsorted(keys, named)] = names.scores[lines, places]
    lines, numbers = keys // size, keys % size
    others = np.isin(keys, named, invert=True)
    by_name[others] = stored.name_scores(vectors, lines[others], numbers[others])
    return lines, numbers, by_name, closeness


def mention_pairs(near: NearMentions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries and entities that have mentions near them, int64 [n], ascending; closeness, float64 [n]."""
    lines, places = np.nonzero(near.numbers >= 0)
    numbers, scores = near.numbers[lines, places], near.scores[lines, places].astype(np.float64)
    order = np.lexsort((numbers, lines))
    lines, numbers, scores = lines[order], numbers[order], scores[order]
    starts = np.flatnonzero(np.diff(lines, prepend=-1) | np.diff(numbers, prepend=-1))
    closeness = np.logaddexp.reduceat(SHARPNESS * scores, starts) / SHARPNESS
    return lines[starts], numbers[starts], closeness


def _known(source: object, document: object, text: object, start: int, stop: int) -> KnownMention:
    """The mention of these values of a KB; TypeError or ValueError if they are none."""
    known = KnownMention(*map(stored_text, (source, document, text)), start, stop)
    if not 0 <= start < stop <= len(known.text):
        raise ValueError(f"a mention from {start} to {stop} of {len(known.text)} characters")
    return known
