"""The mentions that a KB has learnt, of all sources as one: which of them are near, and their texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from operator import is_
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import PelError
from .mention_segment import MentionSegment, mention_segments_of
from .record_look_up import numbers_of
from .records.mention_store import KnownMention
from .segment import Segment

# From concept ids to the numbers of their entities, int64; -1 for an id that the KB lacks.
NumbersOf = Callable[[Sequence[str]], np.ndarray]


class MentionWeight(NamedTuple):
    """How much mentions count.

    Attributes:
        weight: What one unit of closeness adds to the score.
        level: The closeness from which mentions count.
    """

    weight: float
    level: float


class NearMentions(NamedTuple):
    """The mentions nearest to n queries, nearest first.

    Attributes:
        scores: float32 [n, m], inner products; -inf where there are fewer than m.
        numbers: int64 [n, m], the number of each mention's entity; -1 for no mention.
        rows: int64 [n, m], the row of each mention, counted through all sources; -1 for none.
    """

    scores: np.ndarray
    numbers: np.ndarray
    rows: np.ndarray


class KnownMentions:
    """The mentions of a KB. A mention belongs to an id: it counts while the KB has that id.

    Attributes:
        segments: The mentions of each source.
        weight: How much they count in a search.
        fingerprint: The fingerprint of what read them; None if they have no vectors.
    """

    def __init__(
        self,
        segments: Sequence[MentionSegment],
        weight: MentionWeight,
        fingerprint: str | None,
        numbers_of: NumbersOf,
    ) -> None:
        """Opens nothing yet; ``numbers_of`` finds the entities of ids."""
        self.segments = tuple(segments)
        self.weight = weight
        self.fingerprint = fingerprint
        self._numbers_of = numbers_of
        self._remembered: tuple[Sequence[np.ndarray], list[np.ndarray]] | None = None

    def __bool__(self) -> bool:
        return bool(self.segments)

    def check_fingerprint(self, fingerprint: str, folder: Path) -> None:
        """Raises PelError unless what has this fingerprint read the mentions of a KB's folder."""
        if self.fingerprint != fingerprint:
            raise PelError(
                f"{folder}: another encoder read the mentions that it has learnt",
                f"run: python -m spacy pel kb embed {folder} PIPELINE",
            )

    @cached_property
    def _numbers(self) -> list[np.ndarray]:
        """For each segment the KB's numbers of its entities: int64; -1 for those that are gone."""
        return [self._numbers_of(segment.ids()) for segment in self.segments]

    def numbers(self, place: int) -> np.ndarray:
        """The numbers of the entities of a segment: int64; -1 for those that the KB lacks."""
        return self._numbers[place]

    def first_row(self, place: int) -> int:
        """The row that the first mention of a segment has among those of all sources."""
        return int(self._first_rows[place])

    @cached_property
    def _first_rows(self) -> np.ndarray:
        return np.cumsum([0, *(segment.n_rows for segment in self.segments)])

    @cached_property
    def _live(self) -> list[np.ndarray]:
        return [_frozen(numbers >= 0) for numbers in self._numbers]

    @cached_property
    def _orders(self) -> list[np.ndarray]:
        """For each segment its entities in order of their numbers in the KB: int64."""
        return [np.argsort(numbers, kind="stable") for numbers in self._numbers]

    def _masks(self, allowed: Sequence[np.ndarray] | None) -> Sequence[np.ndarray | None]:
        """For each segment booleans: the entities whose mentions may be found; None for all.

        Those of the last filter are kept: an index keeps what it derives from a mask.
        """
        if allowed is None:
            return [None if live.all() else live for live in self._live]
        kept = self._remembered
        if kept is None or not all(map(is_, kept[0], allowed)):
            of_kb = np.concatenate(allowed)
            masks = [
                _frozen(live & of_kb[numbers]) for live, numbers in zip(self._live, self._numbers)
            ]
            kept = self._remembered = tuple(allowed), masks
        return kept[1]

    def counts(self) -> dict[str, int]:
        """The number of mentions of each source whose entity the KB has."""
        counts = {}
        for segment, live in zip(self.segments, self._live):
            owners = None if segment.index is None else segment.index.row_entities
            counts[segment.source] = segment.n_rows if owners is None else int(live[owners].sum())
        return counts

    def nearest(
        self, vectors: np.ndarray, m: int, allowed: Sequence[np.ndarray] | None = None
    ) -> NearMentions:
        """The m mentions nearest to each query.

        Args:
            vectors: The queries, float32 [n, dim].
            m: The number of mentions of each query.
            allowed: For each segment of the KB's entities booleans: those whose mentions may be
                found. None for all.
        """
        found = []
        for i, (segment, mask) in enumerate(zip(self.segments, self._masks(allowed))):
            scores, rows = segment.index.best_rows(vectors, m, mask)
            there = rows >= 0
            owners = np.asarray(segment.index.row_entities)[np.where(there, rows, 0)]
            numbers = np.where(there, self._numbers[i][owners], -1)
            found.append((scores, numbers, np.where(there, rows + self._first_rows[i], -1)))
        scores, numbers, rows = (np.concatenate(each, axis=1) for each in zip(*found))
        order = np.lexsort((rows, -scores), axis=1)[:, :m]
        return NearMentions(
            *(np.take_along_axis(x, order, axis=1) for x in (scores, numbers, rows))
        )

    def nearest_of(self, vectors: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The mention of each candidate that is nearest to its query, if it is near enough to count.

        Args:
            vectors: The queries, float32 [n, dim].
            numbers: The numbers of their candidates, int64 [n, k]; -1 for no candidate.

        Returns:
            The rows of the mentions, int64 [n, k]; -1 for a candidate that has no such mention.
        """
        best = np.full(numbers.shape, self.weight.level, dtype=np.float32)
        rows = np.full(numbers.shape, -1, dtype=np.int64)
        for i, segment in enumerate(self.segments):
            own = self._orders[i]
            places = np.searchsorted(self._numbers[i], numbers, sorter=own)
            local = own[np.minimum(places, len(own) - 1)]
            lines, columns = np.nonzero((self._numbers[i][local] == numbers) & (numbers >= 0))
            found = segment.index.best_rows_of(vectors, lines, local[lines, columns])
            nearer = found[0] > best[lines, columns]
            lines, columns = lines[nearer], columns[nearer]
            best[lines, columns] = found[0][nearer]
            rows[lines, columns] = found[1][nearer] + self._first_rows[i]
        return rows

    def described(self, rows: Sequence[int] | np.ndarray) -> list[tuple[str, KnownMention]]:
        """The source and the text of the mention of each row, in the same order."""
        wanted = np.asarray(rows, dtype=np.int64)
        owners = np.searchsorted(self._first_rows, wanted, side="right") - 1
        answers: list = [None] * len(wanted)
        for owner in np.unique(owners):
            places = np.flatnonzero(owners == owner)
            segment = self.segments[owner]
            known = segment.store.mentions(wanted[places] - self._first_rows[owner])
            for place, mention in zip(places.tolist(), known):
                answers[place] = (segment.source, mention)
        return answers

    def close(self) -> None:
        """Closes the files."""
        for segment in self.segments:
            segment.close()


def known_mentions(
    folder: Path, manifest: dict[str, Any], segments: Sequence[Segment]
) -> KnownMentions:
    """The mentions of a KB folder; its segments of entities say which ids it has."""
    settings = manifest.get("mentions") or {}
    weight = MentionWeight(settings.get("weight", 0.0), settings.get("level", 0.0))
    found = mention_segments_of(folder, manifest)
    return KnownMentions(found, weight, settings.get("fingerprint"), partial(numbers_of, segments))


def _frozen(mask: np.ndarray) -> np.ndarray:
    mask.flags.writeable = False  # an index remembers what it derives from a read-only mask
    return mask
