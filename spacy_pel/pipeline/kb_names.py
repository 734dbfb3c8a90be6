"""The names of a knowledge base, found in text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

# Words and single other characters: what names and texts are compared by.
_PIECE = re.compile(r"\w+|[^\w\s]")
# The most letters of an acronym.
_ACRONYM = 5


class KBNames:
    """Names to be found in text, at the edges of words, the longest of those that begin together.

    White space is not compared, nor is case; but that of an acronym is, of at most five letters,
    all capitals, so that "ALL" is not found in "all".

    Aho-Corasick automata (ahocorasick_rs) over all names: a text is read once, whatever their
    number. Those of 280,000 names take 83 MB, 0.5 GB while they are built (pyahocorasick: 161 MB,
    spaCy's PhraseMatcher: 440 MB, and ten times as long), and more names in proportion.
    """

    def __init__(
        self, names: Iterable[str], *, min_length: int = 3, stop_words: Collection[str] = ()
    ) -> None:
        """names: a stream; of what is found, all stay in memory, as automata.

        min_length: characters of the shortest name, acronyms aside. stop_words: names that are not
        looked for, acronyms aside, in lower case. A name without a letter is not looked for either.
        """
        acronyms: list[str] = []

        def others() -> Iterator[str]:
            for name in names:
                if _is_acronym(name):
                    acronyms.append(name)
                elif (
                    len(name) >= min_length
                    and any(map(str.isalpha, name))
                    and name.casefold() not in stop_words
                ):
                    yield name.casefold()

        self._folded = _automaton(others())
        self._acronyms = _automaton(acronyms)

    def __reduce__(self) -> tuple[type, tuple]:
        """An automaton cannot be copied or pickled: in its place is None, and who had it reads the
        names anew."""
        return type(None), ()

    def found(self, text: str) -> list[tuple[int, int]]:
        """Start and end, in characters, of each name; an acronym may lie in another name."""
        pieces = list(_PIECE.finditer(text))
        folded = _found(self._folded, [piece[0].casefold() for piece in pieces])
        exact = _found(self._acronyms, [piece[0] for piece in pieces])
        found = {*folded, *exact}
        return sorted((pieces[first].start(), pieces[last].end()) for first, last in found)


def _is_acronym(name: str) -> bool:
    n_letters = sum(map(str.isalpha, name))
    return 2 <= len(name) and n_letters <= _ACRONYM and name.isupper() and len(name.split()) == 1


def _automaton(names: Iterable[str]) -> Any:
    from ahocorasick_rs import AhoCorasick, MatchKind

    patterns = (_marked(_PIECE.findall(name)) for name in names)
    return AhoCorasick(
        filter(None, patterns), matchkind=MatchKind.LeftmostLongest, store_patterns=False
    )


def _marked(pieces: Sequence[str]) -> str:
    """The pieces, each between marks, so that what is found of them begins and ends with one."""
    return "".join(f"\0{piece}\1" for piece in pieces)


def _found(automaton: Any, pieces: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The first and the last piece of each name."""
    starts = accumulate((len(piece) + 2 for piece in pieces), initial=0)
    piece_at = {start: number for number, start in enumerate(starts)}
    for _, start, end in automaton.find_matches_as_indexes(_marked(pieces)):
        yield piece_at[start], piece_at[end] - 1
