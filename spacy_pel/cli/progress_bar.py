"""How far a command has come: a bar in a terminal; in a log file, a line now and then."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from .terminal import printable

if TYPE_CHECKING:
    from tqdm import tqdm

T = TypeVar("T")

SECONDS = 30  # between two lines of a log
_LINE = "{desc}: {n_fmt}{unit} [{elapsed}, {rate_fmt}{postfix}]"
_LINE_WITH_TOTAL = (
    "{desc}: {percentage:3.0f}%, {n_fmt} of {total_fmt}{unit} "
    "[{elapsed}<{remaining}, {rate_fmt}{postfix}]"
)
_BAR = " |{bar}|"


def progress_bar(items: Iterable | None = None, *, desc: str = "", **settings: Any) -> tqdm:
    """A bar of tqdm on stderr. If that is no terminal, lines: one every 30 seconds, and the last.

    Args:
        items: What the bar counts while it is iterated over; None if ``update`` counts.
        desc: What is done.
        **settings: Those of tqdm.
    """
    from tqdm import tqdm

    settings["desc"] = printable(desc)
    if sys.stderr.isatty():
        return tqdm(items, dynamic_ncols=True, **settings)
    return _lines_class()(items, mininterval=SECONDS, miniters=1, leave=False, **settings)


def counted(items: Iterable[T], desc: str, unit: str = "") -> Iterator[T]:
    """The items. Their bar begins with the first, so that its rate is right."""
    yield from progress_bar(items, desc=desc, unit=unit)


@cache
def _lines_class() -> type[tqdm]:
    from tqdm import tqdm

    class Lines(tqdm):
        """Writes lines where tqdm draws."""

        def display(self, msg: str | None = None, pos: int | None = None) -> bool:
            """Write a line, but none at the beginning; tqdm erases with an empty message."""
            if msg is None and self.n != self.initial:
                self._line()
            return False

        def clear(self, nolock: bool = False) -> None:
            """Nothing was drawn."""

        def close(self) -> None:
            """Write the last line."""
            if not self.disable:
                self._ema_dt = lambda: None  # the rate of all, as tqdm has it at the end
                self._line()
            super().close()

        @classmethod
        def write(cls, s: str, file: Any = None, end: str = "\n", nolock: bool = False) -> None:
            """Write a message; no line is repeated after it."""
            print(s, file=file or sys.stdout, end=end, flush=True)

        def _line(self) -> None:
            values = self.format_dict
            default = _LINE if self.total is None else _LINE_WITH_TOTAL
            values["bar_format"] = (values["bar_format"] or default).replace(_BAR, "")
            self.fp.write(self.format_meter(**values).strip() + "\n")
            self.fp.flush()

    return Lines
