"""Acronyms that a document defines are read as their long forms.

A definition is "multiple sclerosis (MS)", or "MS (multiple sclerosis)". A mention "MS" of this document
is encoded as "multiple sclerosis", in its place in the text. Only what stands in a mention is
replaced. ``abbreviation_extractor`` finds the definitions, as Schwartz and Hearst (2003) describe it.
Those whose short form stands first it does not find: they are found here, by stricter rules.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from abbreviation_extractor import extract_abbreviation_definition_pairs
from ahocorasick_rs import AhoCorasick

from .mention_inputs import DocumentContext, MentionInContext

Offsets = tuple[int, int]
# The blanks are looked at once: a run of them that no parenthesis ends is not tried from each blank.
_PADDING = re.compile(r"(?<=\() +|(?<! ) +(?=\))")
# The characters of the longest piece in which definitions are searched at once.
_MAX_PIECE = 1_000
# Where a longer text is parted: behind a sentence, else behind a parenthesis, else at a blank.
_ENDS = (re.compile(r"[a-z]{3} ?\. (?=[A-Z])"), re.compile(r"\) "), re.compile(r"\s"))

# A word and a parenthesis, both of bounded length: the time is linear in the text.
_WORD_AND_PARENTHESIS = re.compile(r"(?<![\w-])([^\W_][\w/+.-]{1,9}) ?\(([^()]{3,120})\)")
_ENDS_LONG_FORM = re.compile("[,;:]")
_LETTER = re.compile(r"[^\W_]")
_WORD = re.compile(r"[^\s/-]+")
_WORD_OF_LETTERS = re.compile(r"(?<!\w)[^\W\d_]{4,}(?!\w)")
_NO_LETTER_BEFORE, _NO_LETTER_AFTER = re.compile(r"(?<!\w)"), re.compile(r"(?!\w)")


def defined_abbreviations(text: str) -> dict[str, str]:
    """From each acronym that a text defines to its long form; to the first one of several."""
    first: dict[str, str] = {}
    if "(" in text:
        # The padding is of a text that is tokens joined by blanks.
        text = _PADDING.sub("", _without_surrogates(text))
        for piece in _pieces(text):
            for short, long in _definitions(piece):
                first.setdefault(short, long)
    # A piece of text that two parentheses happen to enclose is no definition.
    return {
        short: long
        for short, long in first.items()
        if short not in long and long.count("(") == long.count(")")
    }


def hidden_definitions(text: str, long_forms: Mapping[str, str]) -> tuple[str, list[Offsets]]:
    """A text in which acronyms stand undefined, and the places where they stand, ascending.

    Both "multiple sclerosis (MS)" and "MS (multiple sclerosis)" become "MS". An acronym that the text
    goes on to define gets no place.

    Args:
        text: A text that defines acronyms.
        long_forms: Some of its ``defined_abbreviations``.
    """
    text = _PADDING.sub("", _without_surrogates(text))
    for short, long in long_forms.items():
        own, phrase, more = re.escape(short), re.escape(long), r"(?:[,;:][^()]*)?\)"
        definition = rf"(?<!\w)(?:(?i:{phrase}) ?\({own}{more}|{own} ?\((?i:{phrase}){more})"
        text = re.sub(definition, lambda match, short=short: short, text)
    defined = defined_abbreviations(text)
    places = places_of(text, long_forms)
    return text, [(start, end) for start, end in places if text[start:end] not in defined]


def places_of(text: str, acronyms: Collection[str]) -> list[Offsets]:
    """Where acronyms stand as whole words, ascending; of two that overlap, the earlier or longer."""
    return list(_whole_words(text, _finder(acronyms)(text))) if acronyms else []


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of bounded length, cut where no definition is expected."""
    start = 0
    while len(text) - start > _MAX_PIECE:
        end = start + _MAX_PIECE
        cuts = ([m.end() for m in pattern.finditer(text, start, end)] for pattern in _ENDS)
        end = next((places[-1] for places in cuts if places), end)
        yield text[start:end]
        start = end
    yield text[start:]


# A document is asked for again in every epoch, and for each of its parts. Where mentions are
# shuffled, this needs the texts of all documents that are shuffled together: 4,000 abstracts.
@lru_cache(maxsize=8_000)
def _definitions(piece: str) -> list[tuple[str, str]]:
    """Pairs of an acronym and its long form, in the order of the text.

    The time may grow with the third power of the length of a sentence.
    """
    pairs = extract_abbreviation_definition_pairs(piece, first_definition=True, ignore_errors=True)
    long_first = [(piece.find(p.definition), p.abbreviation, p.definition) for p in pairs]
    return [(short, long) for _, short, long in sorted([*long_first, *short_forms_first(piece)])]


def short_forms_first(text: str) -> Iterator[tuple[int, str, str]]:
    """Give (place, short form, long form) of each definition whose short form stands first."""
    for match in _WORD_AND_PARENTHESIS.finditer(text):
        short, inside = match[1], match[2].strip()
        for long in dict.fromkeys((_ENDS_LONG_FORM.split(inside)[0].rstrip(), inside)):
            if is_long_form(short, long):
                yield match.start(), short, long
                break


def is_long_form(short: str, long: str) -> bool:
    """Whether a phrase is what an acronym is short for.

    The letters of the acronym stand in the phrase in their order. The first one begins the phrase,
    and at least half of the words have one. The acronym has two capitals; with two letters alone it
    stands for several words. The phrase has a real word, of four letters or more.
    """
    letters, phrase = _LETTER.findall(short.casefold()), long.casefold()
    words = [match.span() for match in _WORD.finditer(long)]
    least = 2 if len(letters) == 2 else 1
    most = min(len(letters) + 5, 2 * len(letters))  # of Schwartz and Hearst
    if (
        sum(map(str.isupper, short)) < 2
        or short.casefold() in phrase
        or not least <= len(words) <= most
        or not _WORD_OF_LETTERS.search(long)
        or not phrase.startswith(letters[0])
    ):
        return False
    places, end = [0], len(phrase)
    for letter in reversed(letters[1:]):  # each as late as possible
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
    """The mentions of a text in which acronyms that stand in mentions are replaced by long forms.

    A mention that holds an acronym and its long form, "multiple sclerosis (MS)", stays as it is, in
    the text as it is. ``long_forms`` are from acronyms, which are known by their exact letters, as
    whole words. All mentions are of one document.
    """
    plain = [MentionInContext(text, start, end, document) for start, end in mentions]
    if not long_forms:
        return plain
    find = _finder(long_forms)
    defines = [
        any(long_forms[short] in mention.surface for short, _, _ in find(mention.surface))
        for mention in plain
    ]
    read = [offsets for offsets, is_definition in zip(mentions, defines) if not is_definition]
    begun = sorted(read)
    starts = [start for start, _ in begun]
    reached = [-1, *accumulate((end for _, end in begun), max)]  # by the first n of them
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
    """As ``expanded``, of a text that stays as it is: an acronym is read where its long form first is."""
    of_mentions = [long_forms.get(text[start:end], "") for start, end in mentions]
    first: dict[str, Offsets] = {}
    if wanted := sorted(set(filter(None, of_mentions))):
        for long, start, end in _finder(wanted)(text):
            first.setdefault(long, (start, end))
    places = [first.get(long, offsets) for long, offsets in zip(of_mentions, mentions)]
    return [MentionInContext(text, *place, document) for place in places]


def _finder(phrases: Iterable[str]) -> Callable[[str], list[tuple[str, int, int]]]:
    """What gives each phrase wherever it stands in a text, by its end. A text is read once."""
    phrases = list(phrases)
    automaton = AhoCorasick(phrases)

    def find(text: str) -> list[tuple[str, int, int]]:
        found = automaton.find_matches_as_indexes(_without_surrogates(text), overlapping=True)
        return [(phrases[number], start, end) for number, start, end in found]

    return find


def _whole_words(text: str, found: Iterable[tuple[str, int, int]]) -> Iterator[Offsets]:
    """Where acronyms stand as whole words, ascending; of two that overlap, the earlier or longer."""
    places = [
        (start, end)
        for _, start, end in found
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
    """A text in which ascending places are replaced, and what gives the new offset of an old one.

    That of one inside a replaced place is where this begins, or with 1 as the second argument ends.
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


def _without_surrogates(text: str) -> str:
    """The text, in which a lone surrogate, which is no character, is a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
