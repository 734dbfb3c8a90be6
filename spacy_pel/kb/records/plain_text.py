"""Plain text: a normal form of Unicode text that keeps the offsets of the original.

Names and texts are compared and encoded only in this form. Compatibility characters, such as ligatures,
superscripts and full-width letters, become plain letters (NFKC). Accents and invisible characters are
removed. There is one hyphen, one quote and one blank. A Greek letter outside a Greek word is spelled out.
A word that a hyphen breaks at the end of a line, as in text of PDFs, is joined. Case stays. All other ASCII
stays as it is. The function is idempotent.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator

import numpy as np

# Characters that NFKC leaves unchanged or confuses with others.
_SPELLED = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u2035\u02b9\u02bb\u02bc\u00b4", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
    **dict.fromkeys("\u2212\u2043", "-"),  # minus and bullet; the dashes are a category
    **dict.fromkeys("\u2044\u2215", "/"),
    **dict.fromkeys("\u00ae\u2120\u2122", ""),  # NFKC would make letters of the last two
    **{"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O"},
    **{"ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th"},
    **{"ħ": "h", "Ħ": "H", "ı": "i"},
}  # fmt: skip
_SPELLED_CATEGORIES = {"Cf": "", "Pd": "-", "Zl": " ", "Zp": " ", "Zs": " "}
# Accents and variation selectors. The marks of kana distinguish letters and stay.
_ACCENTS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f"
_ACCENT = re.compile(f"[{_ACCENTS}]")
# A pattern that begins with a class of rare characters skips other characters fast. Only a text with
# combining accents needs the slow pattern, which looks for one behind each letter.
_CHARACTER = re.compile(r"[^\x00-\x7f][\u3099\u309a]?")
_ACCENTED = re.compile(rf"(?:[^\x00-\x7f]|[\x00-\x7f](?=[{_ACCENTS}]))[{_ACCENTS}]*[\u3099\u309a]?")
_GREEK = {
    letter: f"{name[0]}{name[1:].lower()}" if letter.isupper() else name.lower()
    for letter in "αβγδεζηθικλμνξοπρςστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ"
    for name in (unicodedata.name(letter).split()[-1].replace("LAMDA", "LAMBDA"),)
}
# More than two Greek letters are a word. "μ" before a Latin letter is the prefix of a unit: "μg".
_G = f"[{''.join(_GREEK)}]"
_GREEK_LETTER = re.compile(
    rf"{_G}(?:(?<!μ)|(?![A-Za-z]))(?:(?<!{_G}{_G})(?!{_G}{_G})|(?<={_G}{_G})(?<!{_G}{_G}{_G})(?!{_G}))"
)
# Other scripts keep their marks. unicodedata sorts a run of marks in quadratic time, so runs are bounded;
# no word is longer.
_OTHERS = re.compile(r"[^\x00-\x7f][^\x00-\x7f]{0,249}")
_BREAK = r"[ \t]*\r?\n[ \t]*"
_SOFT_BREAK = re.compile(f"\u00ad{_BREAK}")
_HYPHEN_BREAK = re.compile(rf"-(?<=[A-Za-z][a-z]-){_BREAK}(?=[a-z][a-z])")
_LAST_WORD, _FIRST_WORD = re.compile(r"[A-Za-z]+\Z"), re.compile("[a-z]+")
_MAX_LETTERS = 30  # of a word
# Words that keep their hyphen at the end of a line, and those that keep the hyphen before them. In 3.2
# million words of biomedical text, most are parts of a compound more often than a hyphen breaks a word there.
# 99.9 % of broken words are joined, and 60 % of compounds keep their hyphen.
_BEFORE_HYPHEN = frozenset(
    """
    acid adult alpha angiotensin antigen ataxia beta between blood breast calcium cancer case cognitive
    colony community cost cross disease dose double drug early enzyme factor first four full gamma genotype
    glucocorticoid half health high hormone insulin interferon long mitogen non once one open parallel parent
    patient placebo platelet population progression receptor renin self serum short side single sodium splice
    steroid three time tissue treatment two virus well white whole wild year
    """.split()
)
_BEHIND_HYPHEN = frozenset(
    """
    abdominal activated alcoholic alpha analysis angiotensin associated based binding blind blinded blocker
    blockers cancer carotene catenin cell chain contrast control controlled converting daily deficient density
    derived dose effects frame free functioning gamma guided human induced infected inferiority inflammatory
    intensity intervention invasive label length life like linked linking lowering matched mediated negative
    onset ovarian phenotype positive rank receptor release reported resistant response risk sectional
    selective sensitive small specific stage steroidal stimulated stimulating strand telangiectasia term
    terminal treat treated treatment week year
    """.split()
)


def _at_line_end(hyphen: re.Match[str]) -> str:
    """Return what replaces a hyphen and the end of its line: the hyphen in a compound, "" in a word."""
    text, start = hyphen.string, hyphen.start()
    first = _LAST_WORD.search(text, max(0, start - _MAX_LETTERS), start)
    behind = _FIRST_WORD.match(text, hyphen.end())
    assert first and behind  # ``_HYPHEN_BREAK`` looks for two letters on each side
    is_compound = first[0].lower() in _BEFORE_HYPHEN or behind[0] in _BEHIND_HYPHEN
    return "-" if is_compound or not first[0][1:].islower() else ""


class PlainText:
    """The plain form of a text, ``text``, and the offsets of its characters in the original.

    Offsets ascend in both. All characters that replace one, such as "fi" for "ﬁ", have its offsets.
    """

    def __init__(self, given: str) -> None:
        self.text = given
        # int64 [n + 1]: where the original has each offset of the plain text; None: at the same offset.
        self._offsets: tuple[np.ndarray, np.ndarray] | None = None
        for pattern, spell in _steps(given):
            self._replace(pattern, spell)

    def _replace(self, pattern: re.Pattern[str], plain: Callable[[re.Match[str]], str]) -> None:
        if not pattern.search(self.text):
            return
        parts: list[str] = []
        at = 0
        # How many characters replace each character, and where the replaced ones end.
        counts = np.ones(len(self.text) + 1, np.int64)
        ends = np.arange(1, len(self.text) + 1)
        for match in pattern.finditer(self.text):
            (first, after), new = match.span(), plain(match)
            if new == match[0]:
                continue
            parts += self.text[at:first], new
            counts[first:after] = 0
            counts[first], ends[first] = len(new), after
            at = after
        if not at:
            return
        same = np.arange(len(self.text) + 1)
        old_starts, old_ends = self._offsets or (same, same)
        self.text = "".join([*parts, self.text[at:]])
        ends = np.append(0, np.repeat(ends, counts[:-1]))
        self._offsets = np.repeat(old_starts, counts), old_ends[ends]

    def places(self, given: np.ndarray) -> np.ndarray:
        """Convert offsets in the original to offsets in the plain text: int64, of any shape."""
        return given if self._offsets is None else self._offsets[0][:-1].searchsorted(given)

    def given(self, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert spans in the plain text to spans in the original: starts and ends, int64 [n].

        A span includes each character that it covers in part, and no removed character at its ends.
        """
        if self._offsets is None:
            return starts, ends
        given_starts, given_ends = self._offsets
        return given_starts[starts], np.maximum(given_ends[ends], given_starts[starts])


def plain(text: str) -> str:
    """Return the plain form of a text."""
    for pattern, spell in _steps(text):
        text = pattern.sub(spell, text)
    return text


def _steps(given: str) -> Iterator[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
    """Yield what is replaced in a text, step by step, and the function that gives the replacement."""
    has_lines = "\n" in given
    if not given.isascii():
        if has_lines:
            yield _SOFT_BREAK, lambda _: ""
        yield _ACCENTED if _ACCENT.search(given) else _CHARACTER, lambda match: _PLAIN[match[0]]
        yield _GREEK_LETTER, lambda match: _GREEK[match[0]]
        yield _OTHERS, lambda match: unicodedata.normalize("NFC", match[0])
    if has_lines:
        yield _HYPHEN_BREAK, _at_line_end


class _Plain(dict[str, str]):
    """A cache from a character with its accents to the plain characters."""

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
