"""The items of an array in a JSON object, one in memory at a time.

Python's json wants the whole text. ijson reads streams, but is another package with a parser in C,
for one format; json's own scanner of single values is enough.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from ..errors import PelError
from .format import LONGEST, REST_LOST

_BLOCK = 1 << 16
_CUT = 16  # characters at the end of what is held: a number, word or escape there may go on
_BLANKS = " \t\r\n"


def array_items(file: BinaryIO, key: str) -> Iterator[Any]:
    """The items of the array that the JSON object in a file has under a key.

    Raises:
        KeyError: It is no object, or has no such array.
        ValueError: It is no JSON, or not UTF-8.
        RecursionError: It is nested too deeply.
        PelError: An item is longer than LONGEST.
    """
    text, found = _Text(file), False
    if text.mark() != "{":
        raise KeyError(key)
    text.take("{")
    for name in text.values("}", text.name):
        if name == key and text.mark() == "[":
            found = True
            text.take("[")
            yield from text.values("]", text.value)
        else:
            text.value()
    if text.mark():
        raise text.error("more than one value")
    if not found:
        raise KeyError(key)


class _Text:
    """The text of a file, of which little more is held than the value that is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._scan = json.JSONDecoder().raw_decode
        self._held, self._place, self._lines = "", 0, 1

    def error(self, problem: str) -> ValueError:
        """The error for what stands here."""
        line = self._lines + self._held.count("\n", 0, self._place)
        return ValueError(f"{problem} in line {line}")

    def mark(self) -> str:
        """The next character that is not blank; "" at the end. It is not passed over."""
        while True:
            while self._place < len(self._held):
                if self._held[self._place] not in _BLANKS:
                    return self._held[self._place]
                self._place += 1
            if not self._more():
                return ""

    def take(self, mark: str) -> None:
        """Pass over the next mark; ValueError if it is another."""
        if self.mark() != mark:
            raise self.error(f"expecting {mark!r}")
        self._place += 1

    def values(self, end: str, value: Any) -> Iterator[Any]:
        """What ``value()`` gives until the mark ``end``, with commas between."""
        is_first = True
        while self.mark() != end:
            if not is_first:
                self.take(",")
            is_first = False
            yield value()
        self.take(end)

    def name(self) -> str:
        """The name of a field, with the colon after it."""
        if self.mark() != '"':
            raise self.error("expecting a name in quotes")
        name = self.value()
        self.take(":")
        return name

    def value(self) -> Any:
        """The next value."""
        self.mark()
        while True:
            try:
                value, end = self._scan(self._held, self._place)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated")
                is_cut = is_cut or error.pos > len(self._held) - _CUT
                if not is_cut or not self._more():
                    line = self._lines + error.lineno - 1
                    raise ValueError(f"{error.msg} in line {line}") from error
            else:
                if end < len(self._held) - _CUT or not self._more():
                    self._place = end
                    return value

    def _more(self) -> bool:
        """Read on, as much as is held, so that each value is scanned a few times; False at the end."""
        held = len(self._held) - self._place
        if held > LONGEST:
            raise PelError(f"a value of more than {LONGEST:,} characters{REST_LOST}", "split it")
        data = self._file.read(max(_BLOCK, held))
        more = self._decoder.decode(data, final=not data)
        if data:
            self._lines += self._held.count("\n", 0, self._place)
            self._held, self._place = self._held[self._place :] + more, 0
        return bool(data)
