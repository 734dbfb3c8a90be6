"""Normalise and compare names: equality, words and similarity."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from zlib import crc32

from .plain_text import plain

# The words of FTS5's tokenizer "ascii", without surrogates, which UTF-8 lacks.
_WORD = re.compile("[0-9a-z\u0080-\ud7ff\ue000-\U0010ffff]+")


class _Blanks(dict[int, str]):
    """A table of str.translate. Separators become blanks. Symbols stay: "Na+" is not "Na"."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        separates = category[0] in "ZP" or category in ("Cc", "Cs")
        self[code] = " " if separates else character
        return self[code]


_BLANKS = _Blanks()


def normalised(name: str) -> str:
    """Return the plain text of a name without case, punctuation and repeated blanks."""
    folded = name.lower() if name.isascii() else plain(plain(name).casefold())
    return " ".join(folded.translate(_BLANKS).split()) or " ".join(folded.split())


# From British to American spellings; with \b where other words have these letters inside.
_BRITISH = {
    "aemi": "emi", "aesthes": "esthes", "anaesth": "anesth", "caec": "cec", "faec": "fec",
    "gynaec": "gynec", "isation": "ization", "ischaem": "ischem", "leucocyt": "leukocyt",
    "leucop": "leukop", "lymphoedem": "lymphedem", "myxoedem": "myxedem", "orthopaed": "orthoped",
    "papilloedem": "papilledem", "phaeo": "pheo", "pnoea": "pnea", "rrhoe": "rrhe", "sulph": "sulf",
    "tumour": "tumor", "uraem": "urem", r"\baetiolog": "etiolog", r"\bamoeb": "ameb",
    r"\bcaesar": "cesar", r"\bcoeli": "celi", r"\bfoet": "fet", r"\bgoitre": "goiter",
    r"\bhaem": "hem", r"\bnaev": "nev", r"\boedem": "edem", r"\boesoph": "esoph",
    r"\boestr": "estr", r"\bpaediatr": "pediatr",
    "ageing": "aging", "aluminium": "aluminum", "behaviour": "behavior",
    "colour": "color", "fibre": "fiber", "odour": "odor",
}  # fmt: skip
_AMERICAN = {key.removeprefix(r"\b"): american for key, american in _BRITISH.items()}


def _by_first_letter(patterns: Iterable[str]) -> str:
    """Join patterns, in groups by their first letter. The search skips other letters fast."""
    groups: dict[str, list[str]] = defaultdict(list)
    for pattern in patterns:
        letters = pattern.removeprefix(r"\b")
        start = "" if letters == pattern else rf"(?<=\b{letters[0]})"
        groups[letters[0]].append(start + letters[1:])
    return "|".join(f"{letter}(?:{'|'.join(ends)})" for letter, ends in groups.items())


_BRITISH_SPELLING = re.compile(_by_first_letter(_BRITISH))


def american(name: str) -> str:
    """Return a lower-case name in American spelling: "hemoptysis" for "haemoptysis"."""
    return _BRITISH_SPELLING.sub(lambda match: _AMERICAN[match[0]], name)


def name_hash(normalised_name: str) -> int:
    """Return a 32-bit hash of a normalised name. Hashes may collide."""
    return crc32(normalised_name.encode("utf-8", "surrogatepass"))


def words(text: str) -> list[str]:
    """Return the words of a text as the full-text index stores them."""
    return _WORD.findall(normalised(text))


def name_similarity(query: str, name: str) -> float:
    """Return Dice's coefficient of the words of two texts; 1 only if the normalised texts are equal."""
    wanted, found = words(query), words(name)
    shared = len(set(wanted) & set(found))
    same = normalised(query) == normalised(name)
    return (2 * shared + same) / (len(set(wanted)) + len(set(found)) + 1)
