"""Acronyms that a document defines, as in "multiple sclerosis (MS)", are read as their long forms.

A mention "MS" of this document is encoded as "multiple sclerosis", in its place in the text. Only
what stands in a mention is replaced. The rest of the text stays as it is.

``abbreviation_extractor`` finds the definitions, as Schwartz and Hearst (2003) describe it. It is
the one maintained package for this alone that has wheels forevery Python and system that we
support. scispaCy's detector does the same over tokens (``pipeline.doc_mentions``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from .mention import DocumentContext, MentionInContext

Offsets = tuple[int, int]
_PADDING = re.compile(r"(?<=\() +| +(?=\))")


# A document is asked for again in every epoch, and for each of its parts. Where mentions are
# shuffled, this needs the texts of all documents that are shuffled together.
@lru_cache(maxsize=4096)
def defined_acronyms(text: str) -> Mapping[str, str]:
    """Find the acronyms that a text defines.

    Returns:
        From each acronym to its long form; to the first one if the text defines it several times.
    """
    from abbreviation_extractor import extract_abbreviation_definition_pairs

    if "(" not in text:
        return {}
    text = text.encode("utf-8", "replace").decode("utf-8")  # there may be lone surrogates
    text = _PADDING.sub("", text)  # of a text that is tokens joined by blanks
    pairs = extract_abbreviation_definition_pairs(text, first_definition=True, ignore_errors=True)
    return {p.abbreviation: p.definition for p in pairs if _is_sound(p.abbreviation, p.definition)}


def expanded(
    text: str,
    mentions: Sequence[Offsets],
    long_forms: Mapping[str, str],
    document: DocumentContext | None = None,
) -> list[MentionInContext]:
    """The mentions of a text in which acronyms that stand in mentions are replaced by long forms.

    A mention that holds an acronym and its long form, "multiple sclerosis (MS)", stays as it is, in
    the text as it is.

    Args:
        text: The text of the document.
        mentions: The first character of each mention, and the one after its last.
        long_forms: From acronyms to what they stand for. An acronym is known by its exact letters, as
            a whole word.
        document: The document that the mentions are of.
    """
    plain = [MentionInContext(text, start, end, document) for start, end in mentions]
    defines = [_defines(mention.surface, long_forms) for mention in plain]
    read = [offsets for offsets, is_definition in zip(mentions, defines) if not is_definition]
    places = _within(_occurrences(text, long_forms), read)
    if not places:
        return plain
    new = _Replaced(text, places, [long_forms[text[start:end]] for start, end in places])
    return [
        mention
        if is_definition
        else MentionInContext(new.text, *new.offsets(mention.start, mention.end), document)
        for mention, is_definition in zip(plain, defines)
    ]


def at_long_forms(
    text: str,
    mentions: Sequence[Offsets],
    long_forms: Mapping[str, str],
    document: DocumentContext | None = None,
) -> list[MentionInContext]:
    """The mentions of a text that stays as it is.

    A mention that is an acronym is read where its long form first stands in the text.

    Args:
        text: The text of the document.
        mentions: As for ``expanded``.
        long_forms: As for ``expanded``.
        document: The document that the mentions are of.
    """
    found = []
    for start, end in mentions:
        long = long_forms.get(text[start:end], "")
        first = text.find(long) if long else -1
        place = (start, end) if first < 0 else (first, first + len(long))
        found.append(MentionInContext(text, *place, document))
    return found


class _Replaced:
    """A text in which some places are replaced, and the new offsets of its spans."""

    def __init__(self, text: str, places: Sequence[Offsets], news: Sequence[str]) -> None:
        """places: ascending, without overlap. news: what stands there instead."""
        edges = [0, *(edge for place in places for edge in place), len(text)]
        kept = [text[start:end] for start, end in zip(edges[::2], edges[1::2])]
        self.text = "".join(part for pair in zip(kept, [*news, ""]) for part in pair)
        self._places = places
        growth = (len(new) - (end - start) for (start, end), new in zip(places, news))
        self._shifts = list(accumulate(growth, initial=0))

    def offsets(self, start: int, end: int) -> Offsets:
        """The new offsets of a span; one that cuts into a replaced place gets the whole of it."""
        return self._moved(start, 0), self._moved(end, 1)

    def _moved(self, offset: int, side: int) -> int:
        passed = bisect_right(self._places, offset, key=lambda place: place[1])
        if passed < len(self._places) and self._places[passed][0] < offset:
            return self._places[passed][side] + self._shifts[passed + side]
        return offset + self._shifts[passed]


def _occurrences(text: str, long_forms: Mapping[str, str]) -> list[Offsets]:
    """Where the acronyms stand as whole words; of two that overlap, the longer."""
    if not long_forms:
        return []
    by_length = sorted(long_forms, key=len, reverse=True)
    pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, by_length))})(?!\w)"
    return [match.span() for match in re.finditer(pattern, text)]


def _defines(mention: str, long_forms: Mapping[str, str]) -> bool:
    return any(short in mention and long in mention for short, long in long_forms.items())


def _within(places: Sequence[Offsets], mentions: Sequence[Offsets]) -> list[Offsets]:
    """The places that lie in a mention."""
    begun = sorted(mentions)
    starts = [start for start, _ in begun]
    reached = [-1, *accumulate((end for _, end in begun), max)]  # by the first n of them
    return [place for place in places if place[1] <= reached[bisect_right(starts, place[0])]]


def _is_sound(short: str, long: str) -> bool:
    """Whether it is a definition, and no piece of text that two parentheses happen to enclose."""
    return short not in long and long.count("(") == long.count(")")
