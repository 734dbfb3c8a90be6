"""Finds the names of a knowledge base in text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

# Names and texts are compared piece by piece: a piece is a word, or one other character.
_PIECE = re.compile(r"\w+|[^\w\s]")
# The largest number of letters of an acronym.
_ACRONYM = 5


class KBNames:
    """Finds names in text.

    A name begins and ends at the edge of a word. If several names begin at the same place, the
    longest is found. White space is ignored, and so is case, except in acronyms: "ALL" is not found
    in "all". An acronym is one word of at most five letters, all capitals.

    All names are in two Aho-Corasick automata (ahocorasick_rs), which read a text once, whatever the
    number of names. For 280,000 names they take 83 MB, and 0.5 GB while they are built. Memory grows
    in proportion to the names. (pyahocorasick takes 161 MB; spaCy's PhraseMatcher takes 440 MB and
    ten times as long.)

    Args:
        names: A stream of names. All stay in memory, as automata.
        min_length: Shorter names, in characters, are not looked for. Acronyms may be shorter.
        stop_words: Names, in lower case, that are not looked for. Acronyms are looked for even so.
            A name without a letter never is.
    """

    def __init__(
        self, names: Iterable[str], *, min_length: int = 3, stop_words: Collection[str] = ()
    ) -> None:
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
        """Copy as None: an automaton cannot be copied or pickled. Its owner reads the names then."""
        return type(None), ()

    def found(self, text: str) -> list[tuple[int, int]]:
        """Find the names in a text. An acronym may lie inside another name.

        Args:
            text: Any text.

        Returns:
            The start and the end of each name, in characters, sorted.
        """
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
    """The pieces, each between marks: what is found then begins and ends with a whole piece."""
    return "".join(f"\0{piece}\1" for piece in pieces)


def _found(automaton: Any, pieces: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The numbers of the first and the last piece of each name that is found."""
    starts = accumulate((len(piece) + 2 for piece in pieces), initial=0)
    piece_at = {start: number for number, start in enumerate(starts)}
    for _, start, end in automaton.find_matches_as_indexes(_marked(pieces)):
        yield piece_at[start], piece_at[end] - 1
