"""Acronyms that a document defines are read as their long forms.

A definition is "multiple sclerosis (MS)", or "MS (multiple sclerosis)".

A mention "MS" of this document is encoded as "multiple sclerosis", in its place in the text. Only
what stands in a mention is replaced. The rest of the text stays as it is.

``abbreviation_extractor`` finds the definitions, as Schwartz and Hearst (2003) describe it. It is
the one maintained package for this alone that has wheels for every Python and system that we
support. scispaCy's detector does the same over tokens (``pipeline.doc_mentions``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from threading import Lock

from .mention import DocumentContext, MentionInContext
from .short_forms_first import short_forms_first

Offsets = tuple[int, int]
# The blanks are looked at once: a run of them that no parenthesis ends is not tried from each blank.
_PADDING = re.compile(r"(?<=\() +|(?<! ) +(?=\))")
_WORD_STARTS = re.compile(r"(?<!\w)(?=.)", re.DOTALL)
_WORD_GOES_ON = re.compile(r"\w")
# The characters of the longest piece in which definitions are searched at once.
_LONGEST_PIECE = 1_000
# Where a longer text is parted: behind a sentence, else behind a parenthesis, else at a blank.
_ENDS = (re.compile(r"[a-z]{3} ?\. (?=[A-Z])"), re.compile(r"\) "), re.compile(r"\s"))


class _Remembered:
    """The definitions of the texts that were asked for last.

    Args:
        characters: The number of characters that these texts may have together.
    """

    def __init__(self, characters: int) -> None:
        self._characters = characters
        self._used = 0
        self._definitions: OrderedDict[str, Mapping[str, str]] = OrderedDict()
        self._lock = Lock()

    def __contains__(self, text: str) -> bool:
        return text in self._definitions

    def get(self, text: str) -> Mapping[str, str] | None:
        """The definitions of a text; None if they are not remembered."""
        with self._lock:
            if text in self._definitions:
                self._definitions.move_to_end(text)
            return self._definitions.get(text)

    def put(self, text: str, definitions: Mapping[str, str]) -> None:
        """Remember the definitions of a text, and forget those that were asked for least lately."""
        with self._lock:
            if text not in self._definitions:
                self._definitions[text] = definitions
                self._used += len(text)
            while self._used > self._characters:
                forgotten, _ = self._definitions.popitem(last=False)
                self._used -= len(forgotten)


# A document is asked for again in every epoch, and for each of its parts. Where mentions are
# shuffled, this needs the texts of all documents that are shuffled together: 4,000 abstracts.
_REMEMBERED = _Remembered(8_000_000)


def defined_acronyms(text: str) -> Mapping[str, str]:
    """Find the acronyms that a text defines.

    Returns:
        From each acronym to its long form; to the first one if the text defines it several times.
    """
    if "(" not in text:
        return {}
    known = _REMEMBERED.get(text)
    if known is None:
        known = _found_acronyms(text)
        _REMEMBERED.put(text, known)
    return known


def _found_acronyms(text: str) -> Mapping[str, str]:
    text = _without_surrogates(text)
    text = _PADDING.sub("", text)  # of a text that is tokens joined by blanks
    first: dict[str, str] = {}
    for piece in _pieces(text):
        for short, long in _definitions(piece):
            first.setdefault(short, long)
    return {short: long for short, long in first.items() if _is_sound(short, long)}


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
    defines = _defining(plain, long_forms)
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
    of_mentions = [long_forms.get(text[start:end], "") for start, end in mentions]
    first = _first_places(text, sorted({long for long in of_mentions if long}))
    places = [first.get(long, offsets) for long, offsets in zip(of_mentions, mentions)]
    return [MentionInContext(text, *place, document) for place in places]


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


def _definitions(text: str) -> list[tuple[str, str]]:
    """Pairs of an acronym and its long form, in the order of the text.

    The time may grow with the third power of the length of a sentence.
    """
    from abbreviation_extractor import extract_abbreviation_definition_pairs

    pairs = extract_abbreviation_definition_pairs(text, first_definition=True, ignore_errors=True)
    long_first = [
        (text.find(pair.definition), pair.abbreviation, pair.definition) for pair in pairs
    ]
    return [(short, long) for _, short, long in sorted([*long_first, *short_forms_first(text)])]


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of bounded length, cut where no definition is expected."""
    start = 0
    while len(text) - start > _LONGEST_PIECE:
        end = _cut(text, start, start + _LONGEST_PIECE)
        yield text[start:end]
        start = end
    yield text[start:]


def _cut(text: str, start: int, end: int) -> int:
    """The last place up to ``end`` where a text may be parted."""
    for pattern in _ENDS:
        if places := [match.end() for match in pattern.finditer(text, start, end)]:
            return places[-1]
    return end


def _occurrences(text: str, long_forms: Mapping[str, str]) -> list[Offsets]:
    """Where the acronyms stand as whole words; of two that overlap, the longer."""
    found: list[Offsets] = []
    lengths = _lengths(long_forms)
    reached = 0
    for word in _WORD_STARTS.finditer(text) if long_forms else ():
        if word.start() >= reached:
            end = _end_of_acronym(text, word.start(), long_forms, lengths)
            if end:
                found.append((word.start(), end))
                reached = end
    return found


def _end_of_acronym(
    text: str, start: int, long_forms: Mapping[str, str], lengths: Sequence[int]
) -> int | None:
    """The end of the longest acronym that stands at a place and ends as a word; None if none does."""
    for length in lengths:
        short = text[start : start + length]
        if len(short) == length and short in long_forms:
            if not _WORD_GOES_ON.match(text, start + length):
                return start + length
    return None


def _first_places(text: str, phrases: Sequence[str]) -> dict[str, Offsets]:
    """Where each phrase that a text has stands first. The text is read once, for all of them."""
    from ahocorasick_rs import AhoCorasick

    places: dict[str, Offsets] = {}
    if phrases:
        automaton = AhoCorasick(phrases)
        text = _without_surrogates(text)
        for number, start, end in automaton.find_matches_as_indexes(text, overlapping=True):
            places.setdefault(phrases[number], (start, end))
    return places


def _lengths(texts: Iterable[str]) -> list[int]:
    """The lengths that occur, the largest first."""
    return sorted(set(map(len, texts)), reverse=True)


def _without_surrogates(text: str) -> str:
    """The text, in which a lone surrogate, which is no character, is a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _defining(mentions: Sequence[MentionInContext], long_forms: Mapping[str, str]) -> list[bool]:
    """Whether each mention holds an acronym and its long form."""
    lengths = _lengths(long_forms)
    shortest = min(map(len, long_forms.values()), default=0)

    def defines(surface: str) -> bool:
        if not lengths or len(surface) < shortest:
            return False
        parts = (
            surface[start : start + length]
            for length in lengths
            for start in range(len(surface) - length + 1)
        )
        return any(long_forms[part] in surface for part in parts if part in long_forms)

    return [defines(mention.surface) for mention in mentions]


def _within(places: Sequence[Offsets], mentions: Sequence[Offsets]) -> list[Offsets]:
    """The places that lie in a mention."""
    begun = sorted(mentions)
    starts = [start for start, _ in begun]
    reached = [-1, *accumulate((end for _, end in begun), max)]  # by the first n of them
    return [place for place in places if place[1] <= reached[bisect_right(starts, place[0])]]


def _is_sound(short: str, long: str) -> bool:
    """Whether it is a definition, and no piece of text that two parentheses happen to enclose."""
    return short not in long and long.count("(") == long.count(")")
