"""A document and its mentions, in any format."""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from ..errors import PelError
from ..spans import NIL

T = TypeVar("T")
OFFSETS = "correct the offsets, which count characters (not bytes), the end exclusive"
MAX_SHOWN = 60  # characters of the user's text quoted in an error
_PREFIX = re.compile(r"(?:UMLS|MESH|OMIM):", re.IGNORECASE)
# An id without a comma or semicolon: D009369, 3043, OMIM:600807, CVCL_0031.
_PLAIN_ID = re.compile(r"\s*(?:[A-Za-z]+[:_])?[A-Za-z]{0,2}\d+\s*")


class Mention(NamedTuple):
    """A mention in the text of a document. ``mention_at`` creates a checked one."""

    start: int
    end: int  # the character after its last
    text: str
    label: str = ""
    ids: tuple[str, ...] = ()  # entity ids, each of them correct; NIL has none


class Passage(NamedTuple):
    """A part of a text, and its properties, for example {"type": "title"}."""

    start: int
    end: int
    infons: dict[str, str]


class Document(NamedTuple):
    """A document and its mentions, in the order of the source. Offsets count characters."""

    text: str
    id: str | int | None = None
    mentions: tuple[Mention, ...] | None = None  # None: not recognised yet
    passages: tuple[Passage, ...] = ()  # if the format has them
    infons: dict[str, str] = {}  # properties of the document
    faults: tuple[
        PelError, ...
    ] = ()  # of mentions that do not match their offsets and are left out


def checked_mentions(
    make: Callable[[T], Mention], records: Iterable[T]
) -> tuple[tuple[Mention, ...], tuple[PelError, ...]]:
    """Return the mentions of records, and the errors of the malformed records."""
    mentions, faults = [], []
    for record in records:
        try:
            mentions.append(make(record))
        except PelError as error:
            faults.append(error.with_traceback(None))  # the traceback would keep the data alive
    return tuple(mentions), tuple(faults)


def mention_at(
    text: str,
    start: int,
    end: int,
    label: str = "",
    ids: tuple[str, ...] = (),
    *,
    expected: str | None = None,
    remedy: str = OFFSETS,
) -> Mention:
    """Return the mention at these characters of a text, without white space at its edges.

    Raises:
        PelError: The offsets are not in the text, the mention is blank, or its words are not the
            expected ones. White space may differ.
    """
    if not 0 <= start < end <= len(text):
        problem = f"the mention {start}-{end} is not in the {len(text)} characters of text"
        raise PelError(problem, remedy)
    words = text[start:end]
    if expected is not None and words.split() != expected.split():
        reads, has = expected[:MAX_SHOWN], words[:MAX_SHOWN]
        problem = f"the mention reads {reads!r} but the document has {has!r} at {start}-{end}"
        raise PelError(problem, remedy)
    if not words.strip():
        raise PelError(f"the mention {start}-{end} is blank", "remove it, or correct its offsets")
    start, end = end - len(words.lstrip()), start + len(words.rstrip())
    return Mention(start, end, text[start:end], label, ids)


def curated_ids(field: str) -> tuple[str, ...]:
    """Return the distinct entity ids in a field of PubTator or BioC.

    They are separated by "|", by the "+" of NCBI disease (docs/reference.md explains their meaning in
    each corpus), or, if all are of a simple form, by the "," of BioRED or the ";" of PubTator 3. The prefixes
    UMLS:, MESH: and OMIM: are removed, because knowledge bases have bare ids. "-1", "-", "NIL" and ""
    are no ids.
    """
    ids: list[str] = []
    for part in re.split(r"[|+]", field):
        several = re.split("[,;]", part)
        ids += several if all(map(_PLAIN_ID.fullmatch, several)) else [part]
    bare = (_PREFIX.sub("", id.strip()).strip() for id in ids)
    return tuple(dict.fromkeys(id for id in bare if id not in ("", NIL, "-", "-1")))
