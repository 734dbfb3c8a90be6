"""Learns and forgets the mentions of a source. Each call is one transaction."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np

from ..errors import PelError
from .knowledge_base import KnowledgeBase
from .mentions import MentionPassage, MentionWeight, stored_passages
from .store import Store
from .transaction import Writing, writing

# How much mentions count before that is fitted.
UNFITTED = MentionWeight(0.2, 0.5)
_PASSAGE = "INSERT INTO passage (source, document, text) VALUES (?, ?, ?)"
_MENTION = "INSERT INTO mention (passage, start, stop, concept_id, vector) VALUES (?, ?, ?, ?, ?)"
_ENCODED = 64  # passages given to the encoder at a time


class MentionEncoder(Protocol):
    """Encodes the mentions of passages as a linker reads mentions."""

    fingerprint: str  # of its entity encoder, as the KB has it
    mention_fingerprint: str  # of all that decides the vectors of mentions

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        """The vectors of all mentions of the passages, in their order: float32 [n, dim]."""


def learn_mentions(
    path: str | Path,
    source: str,
    passages: Iterable[MentionPassage],
    encoder: MentionEncoder | None,
) -> int:
    """Gives a KB the mentions of a source, in place of those that it had of this source.

    Until the very end, and after any error or interruption, the KB stays as it was. The number of
    mentions is returned. PelError if there is no KB or no mention, the encoder is missing or not that of
    the KB, another process is writing to it, or the disk is full.
    """
    with writing(path) as change:
        if change.settings["vectors"]:
            if encoder is None:
                problem = f"{change.folder}: has vectors, so mentions need vectors too"
                raise PelError(problem, "give the pipeline that made them: --pipeline PIPELINE")
            with KnowledgeBase.open(change.folder) as kb:
                kb.check_fingerprint(encoder.fingerprint)
                if any(other != source for other in kb.mentions.sources):
                    kb.mentions.check_fingerprint(encoder.mention_fingerprint, change.folder)
        kept = [
            p._replace(mentions=tuple(dict.fromkeys(p.mentions))) for p in passages if p.mentions
        ]
        n_mentions = sum(len(passage.mentions) for passage in kept)
        if not n_mentions:
            problem = f"{source}: no mention has an entity in {change.folder}"
            raise PelError(problem, "give another corpus")
        made = iter(list(_encoded(encoder, kept)) if change.settings["vectors"] else [])
        old = change.settings["mentions"] or {**UNFITTED._asdict(), "counts": {}}
        crc = 0
        with change.transaction():
            _delete(change, source)
            for document, text, mentions in kept:
                crc = zlib.crc32(json.dumps([document, text, mentions]).encode(), crc)
                values = (source, document, text)
                passage = change.database.execute(_PASSAGE, values).lastrowid
                rows = [(passage, *mention, next(made, None)) for mention in mentions]
                change.database.executemany(_MENTION, rows)
            counts = {name: n for name, n in old["counts"].items() if name != source}
            fingerprint = encoder.mention_fingerprint if encoder else None
            counts[source] = n_mentions
            new = {**old, "fingerprint": fingerprint, "counts": counts}
            change.note(new, crc, mentions=new)
    return n_mentions


def forget_mentions(path: str | Path, source: str) -> int:
    """Takes the mentions of a source out of a KB, and returns their number; PelError if it has none."""
    with writing(path) as change:
        old = change.settings["mentions"]
        counts = dict(old["counts"]) if old else {}
        if source not in counts:
            known = ", ".join(counts) or "none"
            problem = f"{change.folder}: has learnt no mentions from {source!r}"
            raise PelError(problem, f"its sources: {known}")
        forgotten = counts.pop(source)
        with change.transaction():
            _delete(change, source)
            new = {**old, "counts": counts} if counts else None
            change.note(new, mentions=new)
    return forgotten


def set_mention_weight(path: str | Path, weight: MentionWeight) -> None:
    """Sets how much the mentions of a KB count, which has some."""
    with writing(path) as change, change.transaction():
        values = {name: float(value) for name, value in weight._asdict().items()}
        new = {**change.settings["mentions"], **values}
        change.note(new, mentions=new)


def mention_vectors(folder: Path, encoder: MentionEncoder) -> list[tuple[bytes, int]]:
    """New vectors of the mentions that a KB has learnt, each with the id of the mention."""
    ids: list[int] = []

    def passages() -> Iterator[MentionPassage]:
        for passage, own in stored_passages(store):
            ids.extend(own)
            yield passage

    with closing(Store(folder)) as store:
        vectors = list(_encoded(encoder, passages()))
    return list(zip(vectors, ids))


def _encoded(encoder: MentionEncoder, passages: Iterable[MentionPassage]) -> Iterator[bytes]:
    stream = iter(passages)
    while block := list(islice(stream, _ENCODED)):
        for vector in encoder.mention_vectors(block):
            yield vector.astype("<f4").tobytes()


def _delete(change: Writing, source: str) -> None:
    of_source = "SELECT id FROM passage WHERE source = ?"
    change.database.execute(f"DELETE FROM mention WHERE passage IN ({of_source})", (source,))
    change.database.execute("DELETE FROM passage WHERE source = ?", (source,))
