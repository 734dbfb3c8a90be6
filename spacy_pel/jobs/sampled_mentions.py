"""Mentions of a batch of documents: found by their names, sampled, and written as rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..documents import RawDocument
from ..documents.document import Document
from ..documents.format import place_text
from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.name_finder import NameFinder, Pieces
from .document_blocks import OnError, refusal

# Characters that are searched at a time: they take about 70 MB.
_CHARACTERS_AT_ONCE = 1_000_000
_SHORTEST = 3  # characters of a mention: acronyms of two letters mean too much


class MinedMentions(NamedTuple):
    """What was found in a batch of documents.

    Attributes:
        numbers: int64 [n], the entities of the mentions that were sampled.
        priorities: uint64 [n]. Of the mentions of an entity, those of the lowest priorities stay.
        rows: Each sampled mention as a line of JSON.
        documents: The number of documents that were searched.
        found: The number of mentions in them.
        skipped: A message for each document that could not be read.
    """

    numbers: np.ndarray
    priorities: np.ndarray
    rows: list[str]
    documents: int
    found: int
    skipped: tuple[str, ...]


class MentionSearch(NamedTuple):
    """How mentions are searched and sampled.

    A mention gets a priority at random, from the seed and its place. The mentions of an entity with
    the lowest priorities are kept: that is a reservoir sample, in whatever order and by however
    many processes the documents are read.

    Attributes:
        kb: The knowledge base.
        names: Its names. Those that several entities have are passed over.
        aliases: Whether aliases are looked for, or only preferred names.
        per_entity: The most mentions of an entity.
        window: The number of words and signs around a mention that are kept.
        seed: Of the priorities.
        on_error: What is done at a document that cannot be read.
    """

    kb: KnowledgeBase
    names: NameFinder
    aliases: bool = False
    per_entity: int = 16
    window: int = 64
    seed: int = 0
    on_error: OnError = OnError.stop

    def mined(self, first: int, records: Sequence[RawDocument]) -> MinedMentions:
        """The sampled mentions of documents, in the order of the text.

        Args:
            first: The number of the first document in the whole input.
            records: The documents.

        Raises:
            PelError: A document cannot be read, and ``on_error`` is "stop".
        """
        skipped: list[str] = []
        chunks = [self._in_chunk(chunk) for chunk in self._chunks(first, records, skipped)]
        found = [mention for chunk in chunks for mention in chunk]
        numbers = np.array([mention.number for mention in found], dtype=np.int64)
        priorities = np.array([mention.priority for mention in found], dtype=np.uint64)
        kept = lowest_of_each(numbers, priorities, self.per_entity)
        ids = self._concept_ids(numbers[kept])
        rows = [found[place].row(ids[found[place].number], self) for place in kept]
        n_documents = len(records) - len(skipped)
        return MinedMentions(
            numbers[kept], priorities[kept], rows, n_documents, len(found), tuple(skipped)
        )

    def _chunks(
        self, first: int, records: Sequence[RawDocument], skipped: list[str]
    ) -> Iterator[list[_Source]]:
        chunk: list[_Source] = []
        size = 0
        for number, record in enumerate(records, first):
            try:
                chunk.append(_Source(number, record, record.document()))
            except PelError as error:
                skipped.append(refusal(number, error, self.on_error))
                continue
            size += len(chunk[-1].document.text)
            if size >= _CHARACTERS_AT_ONCE:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _in_chunk(self, sources: list[_Source]) -> list[_Found]:
        pieces = Pieces([source.document.text for source in sources])
        first, last, names = self.names.found_in(pieces)
        firsts = self.names.bounds[names]
        is_kept = self.names.bounds[names + 1] - firsts == 1
        is_kept &= pieces.ends[last] - pieces.starts[first] >= _SHORTEST
        if not self.aliases:
            is_kept &= self.names.preferred[firsts]
        first, last, owners = first[is_kept], last[is_kept], self.names.owners[firsts[is_kept]]
        which = pieces.texts[first]
        half = self.window // 2
        window_first = np.maximum(first - half, pieces.first[which])
        window_last = np.minimum(
            last + half, pieces.first[which + 1] - 2
        )  # the last one is no piece
        numbers = np.array([source.number for source in sources], dtype=np.uint64)[which]
        columns = (
            which,
            pieces.starts[first],
            pieces.ends[last],
            pieces.starts[window_first],
            pieces.ends[window_last],
            owners,
            _priorities(self.seed, numbers, pieces.starts[first]),
        )
        rows = zip(*(column.tolist() for column in columns))
        return [_Found(sources[at], *columns_of) for at, *columns_of in rows]

    def _concept_ids(self, numbers: np.ndarray) -> dict[int, str]:
        distinct = np.unique(numbers).tolist()
        return {n: id for n, (id, _) in zip(distinct, self.kb.labels(distinct))}


class _Source(NamedTuple):
    """A document with its number in the input, and what it was read from."""

    number: int
    record: RawDocument
    document: Document


class _Found(NamedTuple):
    """A mention, and its window, in characters of the document."""

    source: _Source
    start: int
    end: int
    window_start: int
    window_end: int
    number: int
    priority: int

    def row(self, concept_id: str, search: MentionSearch) -> str:
        """The row of the mention, as JSON."""
        source, record, document = self.source
        start, end = self.start - self.window_start, self.end - self.window_start
        known = document.id
        row = {
            "number": self.number,
            "priority": self.priority,
            "text": document.text[self.window_start : self.window_end],
            "id": place_text(record.place) if known is None else str(known),
            "mentions": [{"start": start, "end": end, "id": concept_id}],
            "source": record.name,
            "offset": self.start,
            "name": document.text[self.start : self.end],
            "entity": concept_id,
            "right": self._is_right(search.kb),
        }
        return json.dumps(row, ensure_ascii=False)

    def _is_right(self, kb: KnowledgeBase) -> bool | None:
        """Whether an annotation of these characters means the entity; None if there is none."""
        for mention in self.source.document.mentions or ():
            if (mention.start, mention.end) == (self.start, self.end) and mention.ids:
                return self.number in map(kb.number, mention.ids)
        return None


def lowest_of_each(numbers: np.ndarray, priorities: np.ndarray, n: int) -> np.ndarray:
    """The places of the n lowest priorities of each number, ascending.

    Args:
        numbers: int64 [m].
        priorities: uint64 [m].
        n: How many are kept of each number.
    """
    order = np.lexsort((priorities, numbers))
    grouped = numbers[order]
    begins = np.concatenate(([True], grouped[1:] != grouped[:-1]))[: len(grouped)]
    places = np.arange(len(grouped))
    rank = places - np.maximum.accumulate(np.where(begins, places, 0))
    return np.sort(order[rank < n])


def _mixed(values: np.ndarray) -> np.ndarray:
    """The numbers, uint64, spread over all bits (splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _priorities(seed: int, documents: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """A random number for each mention, by the number of its document and its place there."""
    seeded = _mixed(documents + _mixed(np.array([seed], dtype=np.uint64)))
    return _mixed(seeded + starts.astype(np.uint64))
