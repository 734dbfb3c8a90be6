"""One record of a document and its mentions, whatever format they come from."""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from ..errors import PelError
from ..spans import NIL

T = TypeVar("T")
OFFSETS = "correct the offsets, which count characters (not bytes), the end exclusive"
_SHOWN = 60  # characters of the user's text quoted in an error
_PREFIX = re.compile(r"(?:UMLS|MESH|OMIM):", re.IGNORECASE)
# An id that has no comma or semicolon of its own: D009369, 3043, OMIM:600807, CVCL_0031.
_PLAIN_ID = re.compile(r"\s*(?:[A-Za-z]+[:_])?[A-Za-z]{0,2}\d+\s*")


class Mention(NamedTuple):
    """A mention in the text of a document; ``mention_at`` makes one that is checked."""

    start: int
    end: int  # the character after its last
    text: str
    label: str = ""
    ids: tuple[str, ...] = ()  # entity ids, any of which is right; none if it is NIL


class Passage(NamedTuple):
    """A part of a text, and what is known about it, for example {"type": "title"}."""

    start: int
    end: int
    infons: dict[str, str]


class Document(NamedTuple):
    """A document and its mentions, in the order of the source. All offsets count its characters."""

    text: str
    id: str | int | None = None
    mentions: tuple[Mention, ...] | None = None  # None: they are still to be found
    passages: tuple[Passage, ...] = ()  # if the format has them
    infons: dict[str, str] = {}  # what is known about the whole document
    faults: tuple[PelError, ...] = ()  # of mentions that are not where their offsets say: left out


def checked_mentions(
    make: Callable[[T], Mention], given: Iterable[T]
) -> tuple[tuple[Mention, ...], tuple[PelError, ...]]:
    """The mentions that are made of what is given, and the errors of those that cannot be made."""
    mentions, faults = [], []
    for each in given:
        try:
            mentions.append(make(each))
        except PelError as error:
            faults.append(error.with_traceback(None))  # which would hold all that it was made from
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
    """The mention at these characters of a text, without white space at its edges; see ``Mention``.

    PelError, with the remedy, if the offsets are not in the text, the mention is blank, or it does not
    read as expected. White space may differ.
    """
    if not 0 <= start < end <= len(text):
        problem = f"the mention {start}-{end} is not in the {len(text)} characters of text"
        raise PelError(problem, remedy)
    found = text[start:end]
    if expected is not None and found.split() != expected.split():
        reads, has = expected[:_SHOWN], found[:_SHOWN]
        problem = f"the mention reads {reads!r} but the document has {has!r} at {start}-{end}"
        raise PelError(problem, remedy)
    if not found.strip():
        raise PelError(f"the mention {start}-{end} is blank", "remove it, or correct its offsets")
    start, end = end - len(found.lstrip()), start + len(found.rstrip())
    return Mention(start, end, text[start:end], label, ids)


def curated_ids(field: str) -> tuple[str, ...]:
    """The entity ids in a field of PubTator or BioC, each once.

    They are joined by "|", or by the "+" of NCBI disease (docs/reference.md says what these mean in
    each corpus); or by the "," of BioRED or the ";" of PubTator 3, if letters and digits are all that
    is between. The prefixes UMLS:, MESH: and OMIM: are removed, as knowledge bases hold bare ids.
    "-1", "-", "NIL" and nothing mean that there is no id.
    """
    ids: list[str] = []
    for part in re.split(r"[|+]", field):
        several = re.split("[,;]", part)
        ids += several if all(map(_PLAIN_ID.fullmatch, several)) else [part]
    bare = (_PREFIX.sub("", id.strip()).strip() for id in ids)
    return tuple(dict.fromkeys(id for id in bare if id not in ("", NIL, "-", "-1")))
