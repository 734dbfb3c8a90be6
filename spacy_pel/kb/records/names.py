"""Compares names: when two are the same, which words they contain, and how similar they are."""

import re
import unicodedata
from zlib import crc32

_DIACRITICS = re.compile("[\u0300-\u036f]+")
# As FTS5's tokenizer "ascii" splits words, except for surrogates, which UTF-8 does not have.
_WORD = re.compile("[0-9a-z\u0080-\ud7ff\ue000-\U0010ffff]+")


class _Blanks(dict):
    """For str.translate: what separates words becomes a blank. Symbols stay: "Na+" is not "Na"."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        separates = category[0] in "ZP" or category in ("Cc", "Cs")
        self[code] = " " if separates else character
        return self[code]


_BLANKS = _Blanks()


def normalised(name: str) -> str:
    """The name without differences of case, Unicode compatibility form, blanks and punctuation."""
    folded = name.lower() if name.isascii() else _in_form("NFKC", _in_form("NFKC", name).casefold())
    return " ".join(folded.translate(_BLANKS).split()) or " ".join(folded.split())


# British spellings with the American ones. They stand at the start of a word where other words have
# these letters inside.
_BRITISH = {
    "aemi": "emi", "aesthes": "esthes", "anaesth": "anesth", "caec": "cec", "faec": "fec",
    "gynaec": "gynec", "isation": "ization", "ischaem": "ischem", "leucocyt": "leukocyt",
    "leucop": "leukop", "lymphoedem": "lymphedem", "myxoedem": "myxedem", "orthopaed": "orthoped",
    "papilloedem": "papilledem", "phaeo": "pheo", "pnoea": "pnea", "rrhoe": "rrhe", "sulph": "sulf",
    "tumour": "tumor", "uraem": "urem", r"\baetiolog": "etiolog", r"\bamoeb": "ameb",
    r"\bcaesar": "cesar", r"\bcoeli": "celi", r"\bfoet": "fet", r"\bgoitre": "goiter",
    r"\bhaem": "hem", r"\bnaev": "nev", r"\boedem": "edem", r"\boesoph": "esoph",
    r"\boestr": "estr", r"\bpaediatr": "pediatr", "ageing": "aging", "aluminium": "aluminum", "behaviour": "behavior",
    "colour": "color", "fibre": "fiber", "odour": "odor",
}  # fmt: skip
_BRITISH_SPELLING = re.compile("|".join(sorted(_BRITISH, key=len, reverse=True)))
_AMERICAN = {key.removeprefix(r"\b"): american for key, american in _BRITISH.items()}


def american(name: str) -> str:
    """A name in lower case in American spelling: "haemoptysis" is "hemoptysis"."""
    return _BRITISH_SPELLING.sub(lambda found: _AMERICAN[found[0]], name)


# unicodedata sorts a run of combining characters in time that grows with its square. So texts are
# normalised piece by piece: no word of a language is longer.
_PIECE = re.compile(r"\s+|\S{1,250}")


def _in_form(form: str, text: str) -> str:
    if text.isascii():
        return text
    return _PIECE.sub(lambda piece: unicodedata.normalize(form, piece[0]), text)


def name_hash(normalised_name: str) -> int:
    """A hash of a normalised name, of 32 bits. Different names may have the same hash."""
    return crc32(normalised_name.encode("utf-8", "surrogatepass"))


def searched_text(names: str) -> str:
    """Normalised names as the full-text index stores them: without diacritics."""
    return _in_form("NFC", _DIACRITICS.sub("", _in_form("NFKD", names)))


def words(text: str) -> list[str]:
    """The words of a text, as the full-text index stores them."""
    return _WORD.findall(searched_text(normalised(text)))


def likeness(query: str, name: str) -> float:
    """Dice's coefficient of the words of two texts; 1 only if the normalised texts are the same."""
    wanted, found = words(query), words(name)
    shared = len(set(wanted) & set(found))
    same = normalised(query) == normalised(name)
    return (2 * shared + same) / (len(set(wanted)) + len(set(found)) + 1)
