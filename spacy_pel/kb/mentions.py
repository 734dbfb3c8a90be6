"""The mentions that a KB has learnt, and how they change scores.

A mention belongs to a concept id, and counts while the KB has that id. Mentions are nearer to each other than
to names; in one index they would displace the names. So they are searched separately:

    score = best name + weight * max(0, closeness - level)
    closeness = log(sum of exp(SHARPNESS * s) over its mentions among the NEAREST) / SHARPNESS

Several near mentions count for more than one: the frequent sense of a word is more probable. ``weight`` and
``level`` are fitted to mentions (``curation.learn_mentions``).
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
SHARPNESS = 20.0  # 1: all mentions count equally; very high: only the nearest one counts
_MIN_DEPTH = 64  # entities found by their names
_BATCH_SIZE = 1024  # queries searched at a time, which limits the memory of a search
_STATE = ("counts", "fingerprint", "changed")  # settings that change with the mentions
_JOINED = "FROM mention JOIN passage ON passage.id = passage"


class PassageMention(NamedTuple):
    """A mention in a passage: its characters and the concept id of its entity."""

    start: int
    stop: int
    id: str


class MentionPassage(NamedTuple):
    """A text, as a linker reads it, with annotated mentions."""

    document: str  # the id of its document, such as a PMID; "" if it has none
    text: str
    mentions: tuple[PassageMention, ...]


class KnownMention(NamedTuple):
    """A mention that a KB has learnt: its source, document id, passage and characters."""

    source: str
    document: str
    text: str
    start: int
    stop: int


class MentionWeight(NamedTuple):
    """What a unit of closeness adds to the score, and the closeness from which mentions count."""

    weight: float
    level: float


class MentionRows(NamedTuple):
    """The mentions whose entities the KB has, in order of entity: [rows]."""

    ids: np.ndarray  # of the rows in the database, int64
    numbers: np.ndarray  # of their entities, int64, ascending
    sources: np.ndarray  # texts
    documents: np.ndarray  # numbers of documents, int64; a passage without document id is one


class NearMentions(NamedTuple):
    """The mentions nearest to n queries, nearest first: [n, m]; -inf and -1 for no mention."""

    scores: np.ndarray  # float32
    numbers: np.ndarray  # of their entities, int64
    rows: np.ndarray  # int64


class KnownMentions:
    """The learnt mentions whose entities the KB has."""

    def __init__(
        self, store: Store, settings: Settings, is_live: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        about: dict[str, Any] = settings["mentions"] or {}
        self.sources: dict[str, int] = about.get("counts", {})  # counts, also of missing entities
        self.weight = MentionWeight(about.get("weight", 0.0), about.get("level", 0.0))
        self.fingerprint: str | None = about.get("fingerprint")  # of their encoder
        self._state = {key: about.get(key) for key in _STATE}
        self._dim = settings["vectors"]["dim"] if settings["vectors"] else 0
        self._store = store
        self._is_live = is_live  # from entity numbers, int64 [n], to whether the KB has them

    def __bool__(self) -> bool:
        return bool(self.sources)

    def check_fingerprint(self, fingerprint: str, folder: Path) -> None:
        """Raise PelError unless the encoder with this fingerprint read the mentions."""
        if self.fingerprint != fingerprint:
            problem = f"{folder}: another encoder read the mentions that it has learnt"
            raise PelError(problem, f"run: python -m spacy pel kb embed {folder} PIPELINE")

    def counts(self) -> dict[str, int]:
        """Return the number of mentions of each source whose entity the KB has."""
        counts = Counter(self.rows.sources.tolist())
        return {source: counts[source] for source in self.sources}

    def search(
        self, stored: StoredVectors, vectors: np.ndarray, k: int, allowed: np.ndarray | None
    ) -> Candidates:
        """Return the k best entities of each query by names and mentions; see ``StoredVectors``."""
        weight, level = self.weight
        batches = []
        for start in range(0, max(1, len(vectors)), _BATCH_SIZE):
            queries = vectors[start : start + _BATCH_SIZE]
            names = stored.search(queries, max(k, _MIN_DEPTH), allowed)
            near = self.nearest(queries, NEAREST, allowed)
            lines, numbers, by_name, closeness = scored_pairs(stored, queries, names, near, level)
            bonus = weight * np.maximum(closeness - level, 0)
            scores = by_name + bonus.astype(np.float32)
            batches.append(stored.best(len(queries), lines, numbers, scores, k))
        return Candidates(*map(np.concatenate, zip(*batches)))

    def nearest(
        self, vectors: np.ndarray, m: int, allowed: np.ndarray | None = None
    ) -> NearMentions:
        """Return the m mentions of allowed entities nearest to each query, float32 [n, dim]."""
        scores, rows = self.index.best_rows(vectors, m, allowed)
        return NearMentions(scores, np.append(self.rows.numbers, -1)[rows], rows)

    def nearest_of(self, vectors: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return the row of each candidate's mention nearest to its query, int64 [n, k]; -1 if none counts.

        Queries are float32 [n, dim], candidates int64 [n, k], -1 for none.
        """
        rows = np.full(numbers.shape, -1, dtype=np.int64)
        lines, columns = np.nonzero(numbers >= 0)
        scores, best = self.index.best_rows_of(vectors, lines, numbers[lines, columns])
        rows[lines, columns] = np.where(scores > self.weight.level, best, -1)
        return rows

    def described(self, rows: Sequence[int] | np.ndarray) -> list[KnownMention]:
        """Return the mentions of rows, in order."""
        query = (
            "SELECT source, document, text, start, stop FROM json_each(?) "
            "LEFT JOIN mention ON mention.id = value LEFT JOIN passage ON passage.id = passage ORDER BY key"
        )
        ids = json.dumps(self.rows.ids[np.asarray(rows, dtype=np.int64)].tolist())
        return self._read(query, ids, make=_known)

    def passages(self) -> list[tuple[MentionPassage, list[int]]]:
        """Return the passages in order, each with the database ids of its mentions."""
        # SQLite 3.45 and later reads a blob among the values of an array as JSON.
        concept_id = "iif(typeof(concept_id) = 'text', concept_id, NULL)"
        query = (
            f"SELECT document, text, json_group_array(json_array(start, stop, {concept_id}, of)) "
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
        """Return ``Store.read``; PelError if mentions were learnt or forgotten since the KB was opened."""
        rows = self._store.read(query, *parameters)
        current = "SELECT json_extract(value, '$.mentions') FROM setting WHERE name = 'kb'"
        with self._store.reading():
            [[text]] = self._store.read(current)
            about = json.loads(text or "{}")
            if {key: about.get(key) for key in _STATE} != self._state:
                problem = f"{self._store.path}: its mentions were changed meanwhile"
                raise PelError(problem, "open the KB again, or refresh it")
            return [make(*row) for row in rows]

    @cached_property
    def index(self) -> VectorIndex:
        """The exact index of the mentions."""
        mentions = "json_each(?) LEFT JOIN mention ON mention.id = value"
        ids = json.dumps(self.rows.ids.tolist())
        vectors = self._read(f"SELECT vector FROM {mentions} ORDER BY key", ids)
        with self._store.reading():
            content = b"".join(vector or b"" for (vector,) in vectors)
            rows = np.frombuffer(content, "<f4").reshape(len(vectors), self._dim)
        return VectorIndex.from_vectors(rows, self.rows.numbers)

    @cached_property
    def rows(self) -> MentionRows:
        """The facts about each row, without its vector."""
        mentions = self._read(
            "SELECT mention.id, number, source, iif(document = '', passage, 'of ' || document) "
            f"{_JOINED} JOIN entity USING (concept_id) ORDER BY number, mention.id"
        )
        columns = list(zip(*mentions)) if mentions else [()] * 4
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
    """Score pairs of a query and an entity found by its names or by mentions closer than ``level``.

    Returns:
        Arrays [n]: the index of the query, ascending; the number of the entity; the score of its names,
        float32; the closeness of its mentions, float64, -inf without any.
    """
    lines, places = np.nonzero(names.numbers >= 0)
    by_names = names.numbers[lines, places]
    mention_lines, numbers, close = mention_pairs(near)
    size = max(by_names.max(initial=0), numbers.max(initial=0)) + 1
    named, mentioned = lines * size + by_names, (mention_lines * size + numbers)[close > level]
    keys = np.union1d(named, mentioned)
    by_name, closeness = np.full(len(keys), -np.inf, np.float32), np.full(len(keys), -np.inf)
    closeness[np.searchsorted(keys, mentioned)] = close[close > level]
    by_name[np.searchsorted(keys, named)] = names.scores[lines, places]
    lines, numbers = keys // size, keys % size
    unscored = np.isin(keys, named, invert=True)
    by_name[unscored] = stored.name_scores(vectors, lines[unscored], numbers[unscored])
    return lines, numbers, by_name, closeness


def mention_pairs(near: NearMentions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return pairs of a query and an entity with near mentions, int64 [n], ascending; closeness, float64."""
    lines, places = np.nonzero(near.numbers >= 0)
    numbers, scores = near.numbers[lines, places], near.scores[lines, places].astype(np.float64)
    order = np.lexsort((numbers, lines))
    lines, numbers, scores = lines[order], numbers[order], scores[order]
    starts = np.flatnonzero(np.diff(lines, prepend=-1) | np.diff(numbers, prepend=-1))
    closeness = np.logaddexp.reduceat(SHARPNESS * scores, starts) / SHARPNESS
    return lines[starts], numbers[starts], closeness


def _known(source: object, document: object, text: object, start: int, stop: int) -> KnownMention:
    """Return the mention of a row; TypeError or ValueError if it is malformed."""
    known = KnownMention(stored_text(source), stored_text(document), stored_text(text), start, stop)
    if not 0 <= start < stop <= len(known.text):
        raise ValueError(f"a mention from {start} to {stop} of {len(known.text)} characters")
    return known
