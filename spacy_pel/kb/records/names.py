"""When two names are the same, when a text holds a word, and how alike a text and a name are."""

from __future__ import annotations

import re
import unicodedata
from zlib import crc32

_DIACRITICS = re.compile("[\u0300-\u036f]+")
# As FTS5's tokenizer "ascii" has it, but for surrogates, which are not in UTF-8.
_WORD = re.compile("[0-9a-z\u0080-\ud7ff\ue000-\U0010ffff]+")


class _Blanks(dict):
    """A table for str.translate, filled as characters occur: what separates words is a blank.

    That is separators, punctuation, control characters and lone surrogates. Symbols stay: "Na+" is
    not "Na".
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        separates = category[0] in "ZP" or category in ("Cc", "Cs")
        self[code] = " " if separates else character
        return self[code]


_BLANKS = _Blanks()


def normalised(name: str) -> str:
    """The name without differences of case, compatibility form, blanks and punctuation."""
    folded = _compatible(_compatible(name).casefold())
    return " ".join(folded.translate(_BLANKS).split()) or " ".join(folded.split())


def _compatible(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def name_hash(normalised_name: str) -> int:
    """32 bits that stand for a normalised name; others may have the same."""
    return crc32(normalised_name.encode("utf-8", "surrogatepass"))


def searched_text(names: str) -> str:
    """Normalised names as the full-text index holds them: without diacritics."""
    if names.isascii():
        return names
    bare = _DIACRITICS.sub("", unicodedata.normalize("NFKD", names))
    return unicodedata.normalize("NFC", bare)


def words(text: str) -> list[str]:
    """The words of a text that the full-text index knows it by."""
    return _WORD.findall(searched_text(normalised(text)))


def likeness(query: str, name: str) -> float:
    """How alike two texts are, from 0 to 1: Dice's coefficient of their words, order as a bonus.

    1 only if they are the same when normalised.
    """
    wanted, found = words(query), words(name)
    shared = len(set(wanted) & set(found))
    same = normalised(query) == normalised(name)
    return (2 * shared + same) / (len(set(wanted)) + len(set(found)) + 1)
