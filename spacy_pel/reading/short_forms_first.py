"""Definitions whose short form stands first, as in "MS (multiple sclerosis)".

Schwartz and Hearst (2003) describe them beside "multiple sclerosis (MS)", but
``abbreviation_extractor`` finds only the latter. The words in parentheses must be the long form and
nothing else, so these rules are stricter than theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A word and a parenthesis, both of bounded length: the time is linear in the text.
_WORD_AND_PARENTHESIS = re.compile(r"(?<![\w-])([^\W_][\w/+.-]{1,9}) ?\(([^()]{3,120})\)")
_ENDS_LONG_FORM = re.compile("[,;:]")
_LETTER = re.compile(r"[^\W_]")
_WORD = re.compile(r"[^\s/-]+")
_WORD_OF_LETTERS = re.compile(r"(?<!\w)[^\W\d_]{4,}(?!\w)")


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
    letters = _LETTER.findall(short.casefold())
    words = [match.span() for match in _WORD.finditer(long)]
    if sum(map(str.isupper, short)) < 2 or short.casefold() in long.casefold():
        return False
    most = min(len(letters) + 5, 2 * len(letters))  # of Schwartz and Hearst
    least = 2 if len(letters) == 2 else 1
    if not least <= len(words) <= most or not _WORD_OF_LETTERS.search(long):
        return False
    places = _places(letters, long.casefold())
    with_letter = sum(any(start <= place < end for place in places) for start, end in words)
    return 2 * with_letter >= len(words)


def _places(letters: list[str], phrase: str) -> list[int]:
    """Where the letters stand in a phrase, each as late as possible; none if they do not.

    The first letter must be the phrase's first.
    """
    if not phrase.startswith(letters[0]):
        return []
    places, end = [0], len(phrase)
    for letter in reversed(letters[1:]):
        end = phrase.rfind(letter, 1, end)
        if end < 0:
            return []
        places.append(end)
    return places
