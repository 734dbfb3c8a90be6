"""Plain text: one spelling of what Unicode writes in many ways, with the offsets of the text as given.

Names and texts are compared, and read by the encoders, in this form alone. Compatibility characters, such as
ligatures, superscripts and full-width letters, become plain letters (NFKC). Accents and invisible characters
are left out. There is one hyphen, one quote and one blank. A Greek letter that is not part of a Greek word
is spelled out. Case stays. The plain form of ASCII, and of a plain text, is the text itself.
"""

import re
import unicodedata
from collections.abc import Callable

import numpy as np

# What compatibility forms leave as it is, or confuse with something else.
_SPELLED = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u2035\u02b9\u02bb\u02bc\u00b4", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
    **dict.fromkeys("\u2212\u2043", "-"),  # minus and bullet; the dashes are a category
    **dict.fromkeys("\u2044\u2215", "/"),
    **dict.fromkeys("\u00ae\u2120\u2122", ""),  # NFKC makes letters of the last two, which are marks
    **{"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O"},
    **{"ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th"},
    **{"ħ": "h", "Ħ": "H", "ı": "i"},
}  # fmt: skip
_SPELLED_CATEGORIES = {"Cf": "", "Pd": "-", "Zl": " ", "Zp": " ", "Zs": " "}
# Accents, and choices between pictures of a character. The marks of kana tell letters apart and stay.
_ACCENTS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f"
_ACCENT = re.compile(f"[{_ACCENTS}]")
# Patterns that begin with a class of rare characters skip the others fast. Only a text with accents of
# their own needs the slow pattern, which looks behind each letter for one.
_CHARACTER = re.compile(r"[^\x00-\x7f][\u3099\u309a]?")
_ACCENTED = re.compile(rf"(?:[^\x00-\x7f]|[\x00-\x7f](?=[{_ACCENTS}]))[{_ACCENTS}]*[\u3099\u309a]?")
_GREEK = {
    letter: f"{name[0]}{name[1:].lower()}" if letter.isupper() else name.lower()
    for letter in "αβγδεζηθικλμνξοπρςστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ"
    for name in (unicodedata.name(letter).split()[-1].replace("LAMDA", "LAMBDA"),)
}
# More than two letters are a word. Before a Latin letter "μ" is the prefix of a unit: "μg".
_G = f"[{''.join(_GREEK)}]"
_GREEK_LETTER = re.compile(
    rf"{_G}(?:(?<!μ)|(?![A-Za-z]))(?:(?<!{_G}{_G})(?!{_G}{_G})|(?<={_G}{_G})(?<!{_G}{_G}{_G})(?!{_G}))"
)
# Other scripts, whose marks stay. unicodedata sorts a run of marks in time that grows with its square, so
# runs are bounded: no word of a language is longer.
_OTHERS = re.compile(r"[^\x00-\x7f][^\x00-\x7f]{0,249}")


class PlainText:
    """A text in its plain form, ``text``, and where each character stands in the text as given.

    The offsets of both ascend together. A character that several others stand for, as "fi" for "ﬁ", is at
    the place of all of these.
    """

    def __init__(self, given: str) -> None:
        self.text = given
        self._starts = self._ends = None  # int64 [n + 1], of plain text, as given; None: the same
        if not given.isascii():
            self._starts = np.arange(len(given) + 1)
            self._ends = self._starts
            for pattern, spell in _steps(given):
                self._replace(pattern, spell)

    def _replace(self, pattern: re.Pattern[str], plain: Callable[[str], str]) -> None:
        parts, at = [], 0
        # How many characters stand for each of the text, the last one for its end, and where they end.
        counts = np.ones(len(self.text) + 1, np.int64)
        ends = np.arange(1, len(self.text) + 1)
        for match in pattern.finditer(self.text):
            (first, after), new = match.span(), plain(match[0])
            if new == match[0]:
                continue
            parts += self.text[at:first], new
            counts[first:after] = 0
            counts[first], ends[first] = len(new), after
            at = after
        if not at:
            return
        self.text = "".join([*parts, self.text[at:]])
        self._starts = np.repeat(self._starts, counts)
        self._ends = self._ends[np.append(0, np.repeat(ends, counts[:-1]))]

    def places(self, given: np.ndarray) -> np.ndarray:
        """Where the plain text has offsets of the text as given: int64, of any shape."""
        return given if self._starts is None else self._starts[:-1].searchsorted(given)

    def given(self, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the text as given has spans of the plain text: their starts and ends, int64 [n].

        All characters are taken that a span has some of, and none that is left out at its ends.
        """
        if self._starts is None:
            return starts, ends
        return self._starts[starts], np.maximum(self._ends[ends], self._starts[starts])


def plain(text: str) -> str:
    """A text in its plain form."""
    if not text.isascii():
        for pattern, spell in _steps(text):
            text = pattern.sub(lambda match, spell=spell: spell(match[0]), text)
    return text


def _steps(given: str) -> tuple[tuple[re.Pattern[str], Callable[[str], str]], ...]:
    """What is replaced in a text, one after the other, and what takes its place."""
    return (
        (_ACCENTED if _ACCENT.search(given) else _CHARACTER, _PLAIN.__getitem__),
        (_GREEK_LETTER, _GREEK.__getitem__),
        (_OTHERS, lambda others: unicodedata.normalize("NFC", others)),
    )


class _Plain(dict[str, str]):
    """From characters, with the accents behind them, to plain ones."""

    def __missing__(self, given: str) -> str:
        letters = unicodedata.normalize("NFC", _ACCENT.sub("", given))
        if letters not in _SPELLED:
            letters = _ACCENT.sub("", unicodedata.normalize("NFKD", letters))
        new = "".join(map(_spelled, unicodedata.normalize("NFC", letters)))
        if len(given) < 4:  # a run of accents may have any length
            self[given] = new
        return new


def _spelled(character: str) -> str:
    category = unicodedata.category(character)
    return _SPELLED.get(character, _SPELLED_CATEGORIES.get(category, character))


_PLAIN = _Plain()
