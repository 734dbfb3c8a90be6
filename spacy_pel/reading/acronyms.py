"""Acronyms that a document defines, as in "multiple sclerosis (MS)", read as their long forms.

A mention "MS" of this document is encoded as "multiple sclerosis", in its place in the text. SearchFilter
what stands in a mention is replaced: the rest of the text stays as it is.

Definitions are found as Schwartz and Hearst (2003) say, by ``abbreviation_extractor``: of the
packages that do it alone, the one that is kept up and has wheels for all Pythons and systems of
ours. scispaCy's detector does the same over tokens; see ``pipeline.mentions``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from .inputs import MentionInContext

Offsets = tuple[int, int]
_PADDING = re.compile(r"(?<=\() +| +(?=\))")


@lru_cache(maxsize=1024)  # a document is asked again in every epoch, and for each of its windows
def defined_acronyms(text: str) -> Mapping[str, str]:
    """From the acronyms that the text defines to their long forms; of several, the first."""
    from abbreviation_extractor import extract_abbreviation_definition_pairs

    if "(" not in text:
        return {}
    text = text.encode("utf-8", "replace").decode("utf-8")  # there may be lone surrogates
    text = _PADDING.sub("", text)  # of a text that is tokens joined by blanks
    pairs = extract_abbreviation_definition_pairs(text, first_definition=True, ignore_errors=True)
    return {p.abbreviation: p.definition for p in pairs if _is_sound(p.abbreviation, p.definition)}


def expanded(
    text: str, mentions: Sequence[Offsets], long_forms: Mapping[str, str]
) -> list[MentionInContext]:
    """The mentions in one text where acronyms in mentions have made room for their long forms.

    mentions: offsets in ``text``. long_forms: from acronyms to what they stand for; an acronym is
    known by its exact letters, as a whole word. A mention that holds an acronym and its long form,
    "multiple sclerosis (MS)", stays as it is, in the text as it is.
    """
    plain = [MentionInContext(text, start, end) for start, end in mentions]
    spelt_out = [_defines(text[start:end], long_forms) for start, end in mentions]
    read = [offsets for offsets, defines in zip(mentions, spelt_out) if not defines]
    places = _within(_occurrences(text, long_forms), read)
    if not places:
        return plain
    new = _Replaced(text, places, [long_forms[text[start:end]] for start, end in places])
    return [
        mention if defines else MentionInContext(new.text, *new.offsets(mention.start, mention.end))
        for mention, defines in zip(plain, spelt_out)
    ]


def at_long_forms(
    text: str, mentions: Sequence[Offsets], long_forms: Mapping[str, str]
) -> list[MentionInContext]:
    """The mentions in one text that is as it is; those that are acronyms, where their long forms
    first stand in it. The arguments are those of ``expanded``."""
    found = []
    for start, end in mentions:
        long = long_forms.get(text[start:end], "")
        first = text.find(long) if long else -1
        place = (start, end) if first < 0 else (first, first + len(long))
        found.append(MentionInContext(text, *place))
    return found


class _Replaced:
    """A text with some places replaced, and where its offsets have gone."""

    def __init__(self, text: str, places: Sequence[Offsets], news: Sequence[str]) -> None:
        """places: ascending and apart. news: what stands there instead."""
        edges = [0, *(edge for place in places for edge in place), len(text)]
        kept = [text[start:end] for start, end in zip(edges[::2], edges[1::2])]
        self.text = "".join(part for pair in zip(kept, [*news, ""]) for part in pair)
        self._places = places
        growth = (len(new) - (end - start) for (start, end), new in zip(places, news))
        self._shifts = list(accumulate(growth, initial=0))

    def offsets(self, start: int, end: int) -> Offsets:
        """Where a span has gone; one that cuts into a replaced place has the whole of it."""
        return self._moved(start, 0), self._moved(end, 1)

    def _moved(self, offset: int, side: int) -> int:
        passed = bisect_right(self._places, offset, key=lambda place: place[1])
        if passed < len(self._places) and self._places[passed][0] < offset:
            return self._places[passed][side] + self._shifts[passed + side]
        return offset + self._shifts[passed]


def _occurrences(text: str, long_forms: Mapping[str, str]) -> list[Offsets]:
    """Where the acronyms stand as whole words, of two that overlap the longer."""
    if not long_forms:
        return []
    by_length = sorted(long_forms, key=len, reverse=True)
    pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, by_length))})(?!\w)"
    return [match.span() for match in re.finditer(pattern, text)]


def _defines(mention: str, long_forms: Mapping[str, str]) -> bool:
    return any(short in mention and long in mention for short, long in long_forms.items())


def _within(places: Sequence[Offsets], mentions: Sequence[Offsets]) -> list[Offsets]:
    """Those of the places that lie in a mention."""
    begun = sorted(mentions)
    starts = [start for start, _ in begun]
    reached = [-1, *accumulate((end for _, end in begun), max)]  # by the first n of them
    return [place for place in places if place[1] <= reached[bisect_right(starts, place[0])]]


def _is_sound(short: str, long: str) -> bool:
    """Whether it is a definition, and no piece of text that two parentheses happen to enclose."""
    return short not in long and long.count("(") == long.count(")")
