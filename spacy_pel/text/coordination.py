"""Coordinated mentions: "breast and ovarian cancer" means breast cancer and ovarian cancer.

The shared words end the last mention ("ovarian cancer"), or begin the first ("hypopigmentation of skin
or hair"). The names of a knowledge base decide which words are shared.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

Place = tuple[int, int]  # start and end, in characters
_LINK = r"(?:,? (?:and/or|and|or)|,) (?:the )?"
_LINKS = re.compile(_LINK)
_LINK_ENDS = (" and/or ", " and ", " or ", ", ", " the ")
_BEFORE = re.compile(rf"(?P<words>(?:[\w'-]+ )?[\w'-]+)(?P<link>{_LINK})$")
_BEHIND = re.compile(rf"(?P<link>{_LINK})(?P<words>[\w'-]+(?: [\w'-]+)?)")
_WORD = re.compile(r"\S+")
_CONTEXT = 80  # characters before and after a mention that are searched
_MAX_MENTIONS = 8  # in one coordination


class Part(NamedTuple):
    """A mention, and its words together with the words that it shares with other mentions."""

    start: int
    end: int
    read_as: str


def coordinated(text: str, start: int, end: int, is_name: Callable[[str], bool]) -> list[Part]:
    """Return the mentions that share words with a mention, from left to right.

    The mention from ``start`` to ``end``, in characters, is one of them or contains several. Each is a name
    together with the shared words (``is_name``), and no name without them, except for the mention that
    contains the shared words. If all parts of a mention are names by themselves, they share no words and are
    returned unchanged.
    """
    edges = [edge for link in _LINKS.finditer(text, start, end) for edge in link.span()]
    edges = [start, *edges, end]
    phrases = list(zip(edges[::2], edges[1::2]))
    if len(phrases) == 1:
        if not (_beside(text, (start, end), True) or _beside(text, (start, end), False)):
            return []
    elif len(phrases) > _MAX_MENTIONS or is_name(text[start:end]):
        return []
    elif all(is_name(text[slice(*phrase)]) for phrase in phrases):
        return [Part(*phrase, text[slice(*phrase)]) for phrase in phrases]
    return _sharing(text, phrases, is_name, True) or _sharing(text, phrases, is_name, False)


def _sharing(
    text: str, phrases: list[Place], is_name: Callable[[str], bool], at_end: bool
) -> list[Part]:
    """Return the mentions that share the end of the last phrase, or else the start of the first."""
    whole, *others = phrases[::-1] if at_end else phrases
    if not is_name(text[slice(*whole)]):
        return []
    words = [word.span() for word in _WORD.finditer(text, *whole)]

    def completed(place: Place, shared: str) -> Part | None:
        """Return the largest part of a phrase that forms a name with the shared words."""
        spans = [word.span() for word in _WORD.finditer(text, *place)]
        for n in range(len(spans)):
            first, last = (spans[n][0], place[1]) if at_end else (place[0], spans[-1 - n][1])
            phrase = text[first:last]
            read_as = f"{phrase} {shared}" if at_end else f"{shared} {phrase}"
            is_letter = len(phrase) == 1 and phrase.islower()  # "a gene" shares nothing; "C" may
            if is_name(read_as) and not (is_letter or is_name(phrase)):
                return Part(first, last, read_as)
        return None

    for n in range(1, len(words)):  # the longest first
        shared = text[words[n][0] : whole[1]] if at_end else text[whole[0] : words[-1 - n][1]]
        parts = [part for place in others if (part := completed(place, shared))]
        if len(parts) < len(others):
            continue
        outer, n_joined, is_joined = [], 0, at_end and bool(others)
        reached = parts[-1][:2] if parts else whole
        # Outside the mention, a list with only commas is no coordination.
        for _ in range(_MAX_MENTIONS):
            if not (match := _beside(text, reached, at_end)):
                break
            is_joined = bool(re.search("and|or", match["link"])) or at_end and is_joined
            if part := completed(match.span("words"), shared):
                outer.append(part)
                n_joined = len(outer) if is_joined else n_joined
            elif not at_end or " " in match["words"] or is_name(match["words"]):
                break  # otherwise, the KB lacks an item of a list: "branchial, otic and renal anomalies"
            reached = part[:2] if part else match.span("words")
        parts += outer[:n_joined]
        if parts:
            return sorted([*parts, Part(*whole, text[slice(*whole)])])
    return []


def _beside(text: str, place: Place, before: bool) -> re.Match[str] | None:
    """Match one or two words that "and" or a comma joins to a place."""
    start, end = place
    if not before:
        return _BEHIND.match(text, end, end + _CONTEXT)
    if text.endswith(_LINK_ENDS, 0, start):  # the search is slow
        return _BEFORE.search(text, max(0, start - _CONTEXT), start)
    return None
