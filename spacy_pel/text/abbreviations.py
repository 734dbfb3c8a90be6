"""Abbreviations that a document defines, and mentions with long forms in their place.

A definition is "multiple sclerosis (MS)" or "MS (multiple sclerosis)". A mention "MS" of this document
is encoded as "multiple sclerosis". Text outside of mentions is not replaced. ``abbreviation_extractor``
finds definitions whose long form comes first (Schwartz and Hearst 2003). Stricter rules in this module
find those whose short form comes first.

In this package an abbreviation is a short form that a text defines. An acronym is a name in capitals,
whether or not a text defines it.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

import numpy as np
from abbreviation_extractor import extract_abbreviation_definition_pairs
from ahocorasick_rs import AhoCorasick

from .mention_inputs import DocumentContext, MentionInContext

Offsets = tuple[int, int]
# The lookbehind keeps the time linear: a run of blanks is tried from its first blank only.
_PADDING = re.compile(r"(?<=\() +|(?<! ) +(?=\))")
_MAX_PIECE = 1_000  # characters that are searched for definitions at once
# Where to cut a longer text: after a sentence, else after a parenthesis, else at a blank.
_ENDS = (re.compile(r"[a-z]{3} ?\. (?=[A-Z])"), re.compile(r"\) "), re.compile(r"\s"))

# Both are of bounded length, so that the time is linear in the text.
_WORD_AND_PARENTHESIS = re.compile(r"(?<![\w-])([^\W_][\w/+.-]{1,9}) ?\(([^()]{3,120})\)")
_ENDS_LONG_FORM = re.compile("[,;:]")
_LETTER = re.compile(r"[^\W_]")
_WORD = re.compile(r"[^\s/-]+")
_WORD_OF_LETTERS = re.compile(r"(?<!\w)[^\W\d_]{4,}(?!\w)")
_NO_LETTER_BEFORE, _NO_LETTER_AFTER = re.compile(r"(?<!\w)"), re.compile(r"(?!\w)")


def defined_abbreviations(text: str) -> dict[str, str]:
    """Return the long form of each abbreviation that a text defines, the first of several."""
    first: dict[str, str] = {}
    if "(" in text:
        text = _without_padding(_without_surrogates(text))
        for piece in _pieces(text):
            # The time may grow with the third power of the length of a sentence.
            pairs = extract_abbreviation_definition_pairs(
                piece, first_definition=True, ignore_errors=True
            )
            long_first = [
                (piece.find(long), short, _with_all_words(piece, short, long))
                for short, long in ((pair.abbreviation, pair.definition) for pair in pairs)
            ]
            for _, short, long in sorted([*long_first, *short_forms_first(piece)]):
                first.setdefault(short, long)
    # A piece of text that two parentheses happen to enclose is no definition.
    return {
        short: long
        for short, long in first.items()
        if short not in long and long.count("(") == long.count(")")
    }


def _with_all_words(text: str, short: str, long: str) -> str:
    """Return a long form that a text defines, with all words whose initials are its short form.

    Schwartz and Hearst take as few words as have its letters: of "sick sinus syndrome (SSS)" the last two.
    """
    before = text[: max(0, text.find(f"({short}"))].rstrip()
    words = list(_WORD.finditer(before))[-len(short) :]
    initials = "".join(word[0][0] for word in words)
    if initials.casefold() != short.casefold() or not before.endswith(long):
        return long
    return max(long, before[words[0].start() :], key=len)


def hidden_definitions(text: str, long_forms: Mapping[str, str]) -> tuple[str, list[Offsets]]:
    """Remove the definitions of abbreviations from a text.

    Both "multiple sclerosis (MS)" and "MS (multiple sclerosis)" become "MS".

    Args:
        text: A text that defines abbreviations.
        long_forms: Some of its ``defined_abbreviations``.

    Returns:
        The new text, and the ascending offsets of the abbreviations in it. Those that the new text
        still defines have none.
    """
    text = _without_padding(_without_surrogates(text))
    for short, long in long_forms.items():
        word, phrase, end = re.escape(short), re.escape(long), r"(?:[,;:][^()]*)?\)"
        definition = rf"(?<!\w)(?:(?i:{phrase}) ?\({word}{end}|{word} ?\((?i:{phrase}){end})"
        text = re.sub(definition, lambda _: short, text)
    defined = defined_abbreviations(text)
    places = places_of(text, long_forms)
    return text, [(start, end) for start, end in places if text[start:end] not in defined]


def places_of(text: str, abbreviations: Collection[str]) -> list[Offsets]:
    """Return the offsets of abbreviations that are whole words; see ``_whole_words``."""
    return list(_whole_words(text, _finder(abbreviations)(text))) if abbreviations else []


class WithLongForms:
    """A text with the long form in place of each abbreviation that it defines.

    A definition also defines the other number: "stem cells (SCs)" defines "SC", and "SC" defines "SCs".

    Args:
        original: The text.
        defined: The long form of each abbreviation that it defines.
        stays: Tells from an abbreviation and its long form whether the abbreviation stays.

    Attributes:
        text: The new text.
        kept: The abbreviations that stay.
    """

    def __init__(
        self, original: str, defined: Mapping[str, str], stays: Callable[[str, str], bool]
    ) -> None:
        self.kept = {short for short, long in defined.items() if stays(short, long)}
        defined = {short: long for short, long in defined.items() if short not in self.kept}
        of_one = {f"{short}s": long for short, long in defined.items()}
        of_many = {
            short[:-1]: long
            for short, long in defined.items()
            if short.endswith("s") and short[:-1].isupper()
        }
        long_forms = {**of_one, **of_many, **defined}
        places = places_of(original, long_forms)
        longs = [long_forms[original[start:end]] for start, end in places]
        self.text, moved = _replaced(original, places, longs)
        self._original = np.array(places, np.int64).reshape(-1, 2)
        new = [(moved(start, 0), moved(end, 1)) for start, end in places]
        self._new = np.array(new, np.int64).reshape(-1, 2)

    def given(
        self, starts: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Convert spans of the new text to spans of the original text.

        Returns:
            Their starts and ends, int64 [n]; whether they cut no abbreviation, and whether they contain
            one: bool [n].
        """
        shifts = np.append(0, self._original[:, 1] - self._new[:, 1])
        before, within = (self._new[:, 1].searchsorted(x, side="right") for x in (starts, ends))
        next_start = np.append(self._new[:, 0], len(self.text))
        is_whole = (next_start[before] >= starts) & (next_start[within] >= ends)
        return starts + shifts[before], ends + shifts[within], is_whole, within > before


def _pieces(text: str) -> Iterator[str]:
    """Yield pieces of at most _MAX_PIECE characters, cut where no definition is expected."""
    start = 0
    while len(text) - start > _MAX_PIECE:
        end = start + _MAX_PIECE
        cuts = ([m.end() for m in pattern.finditer(text, start, end)] for pattern in _ENDS)
        end = next((places[-1] for places in cuts if places), end)
        yield text[start:end]
        start = end
    yield text[start:]


def short_forms_first(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (offset, short form, long form) of each definition whose short form comes first."""
    for match in _WORD_AND_PARENTHESIS.finditer(text):
        short, inside = match[1], match[2].strip()
        for long in dict.fromkeys((_ENDS_LONG_FORM.split(inside)[0].rstrip(), inside)):
            if is_long_form(short, long):
                yield match.start(), short, long
                break


def is_long_form(short: str, long: str) -> bool:
    """Return whether a phrase is the long form of an abbreviation.

    The phrase has the letters of the abbreviation in the same order. It begins with the first letter,
    and at least half of its words have one of the letters. One of its words has four letters or more.
    The abbreviation has at least two capitals. If it has only two letters, the phrase has several words.
    """
    letters, phrase = _LETTER.findall(short.casefold()), long.casefold()
    words = [match.span() for match in _WORD.finditer(long)]
    min_words = 2 if len(letters) == 2 else 1
    max_words = min(len(letters) + 5, 2 * len(letters))  # as in Schwartz and Hearst
    if (
        sum(map(str.isupper, short)) < 2
        or short.casefold() in phrase
        or not min_words <= len(words) <= max_words
        or not _WORD_OF_LETTERS.search(long)
        or not phrase.startswith(letters[0])
    ):
        return False
    places, end = [0], len(phrase)
    for letter in reversed(letters[1:]):  # match each as late as possible
        end = phrase.rfind(letter, 1, end)
        if end < 0:
            return False
        places.append(end)
    with_letter = sum(any(start <= place < end for place in places) for start, end in words)
    return 2 * with_letter >= len(words)


def expanded(
    text: str,
    mentions: Sequence[Offsets],
    long_forms: Mapping[str, str],
    document: DocumentContext | None = None,
) -> list[MentionInContext]:
    """Return the mentions of a document with long forms in place of abbreviations.

    The text is replaced within mentions only. A mention that has an abbreviation and its long form,
    "multiple sclerosis (MS)", stays as it is, in the original text.

    Args:
        text: The text of the document.
        mentions: The offsets of the mentions in the text.
        long_forms: The long form of each abbreviation, which is matched by case, as a whole word.
        document: The document, as the mentions share it.
    """
    plain = [MentionInContext(text, start, end, document) for start, end in mentions]
    if not long_forms:
        return plain
    find = _finder(long_forms)
    defines = [
        any(long_forms[short] in mention.surface for short, _, _ in find(mention.surface))
        for mention in plain
    ]
    replaced = sorted(m for m, is_definition in zip(mentions, defines) if not is_definition)
    starts = [start for start, _ in replaced]
    reached = [-1, *accumulate((end for _, end in replaced), max)]  # the last end of the first n
    places = [
        place
        for place in _whole_words(text, find(text))
        if place[1] <= reached[bisect_right(starts, place[0])]
    ]
    if not places:
        return plain
    new, moved = _replaced(text, places, [long_forms[text[start:end]] for start, end in places])
    return [
        mention
        if is_definition
        else MentionInContext(new, moved(mention.start, 0), moved(mention.end, 1), document)
        for mention, is_definition in zip(plain, defines)
    ]


def at_long_forms(
    text: str,
    mentions: Sequence[Offsets],
    long_forms: Mapping[str, str],
    document: DocumentContext | None = None,
) -> list[MentionInContext]:
    """Return the mentions of a document, each abbreviation at the first occurrence of its long form.

    The text does not change. The arguments are those of ``expanded``.
    """
    phrases = [long_forms.get(text[start:end], "") for start, end in mentions]
    first: dict[str, Offsets] = {}
    if distinct := sorted(set(filter(None, phrases))):
        for long, start, end in _finder(distinct)(text):
            first.setdefault(long, (start, end))
    places = [first.get(long, offsets) for long, offsets in zip(phrases, mentions)]
    return [MentionInContext(text, start, end, document) for start, end in places]


def _finder(phrases: Iterable[str]) -> Callable[[str], list[tuple[str, int, int]]]:
    """Return a function that finds phrases in a text: phrase, start and end, ordered by end."""
    phrases = list(phrases)
    automaton = AhoCorasick(phrases)

    def find(text: str) -> list[tuple[str, int, int]]:
        matches = automaton.find_matches_as_indexes(_without_surrogates(text), overlapping=True)
        return [(phrases[number], start, end) for number, start, end in matches]

    return find


def _whole_words(text: str, matches: Iterable[tuple[str, int, int]]) -> Iterator[Offsets]:
    """Yield the offsets of matches that are whole words, ascending.

    If two overlap, the one that starts earlier is kept; if both start together, the longer one.
    """
    places = [
        (start, end)
        for _, start, end in matches
        if _NO_LETTER_BEFORE.match(text, start) and _NO_LETTER_AFTER.match(text, end)
    ]
    reached = 0
    for start, end in sorted(places, key=lambda place: (place[0], -place[1])):
        if start >= reached:
            yield start, end
            reached = end


def _replaced(
    text: str, places: Sequence[Offsets], news: Sequence[str]
) -> tuple[str, Callable[[int, int], int]]:
    """Replace ascending places of a text.

    Returns:
        The new text, and a function from an old offset to the new one. An offset inside a replaced
        place becomes its start if the second argument is 0, its end if it is 1.
    """
    edges = [0, *(edge for place in places for edge in place), len(text)]
    kept = [text[start:end] for start, end in zip(edges[::2], edges[1::2])]
    growth = (len(new) - (end - start) for (start, end), new in zip(places, news))
    shifts = list(accumulate(growth, initial=0))

    def moved(offset: int, side: int) -> int:
        passed = bisect_right(places, offset, key=lambda place: place[1])
        if passed < len(places) and places[passed][0] < offset:
            return places[passed][side] + shifts[passed + side]
        return offset + shifts[passed]

    return "".join(part for pair in zip(kept, [*news, ""]) for part in pair), moved


def _without_padding(text: str) -> str:
    """Return the text without blanks at the inner sides of parentheses, where joined tokens have them."""
    return _PADDING.sub("", text) if "( " in text or " )" in text else text  # the search is slow


def _without_surrogates(text: str) -> str:
    """Return the text with a question mark in place of each lone surrogate, which is no character."""
    return text.encode("utf-8", "replace").decode("utf-8")
