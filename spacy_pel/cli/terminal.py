"""All that commands print: messages, the log, and bars that show how far they have come.

None of it has the control characters that texts of users may hold. Names of a KB or a corpus could
otherwise move the cursor, rename the window or hide a line.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import typer
from tqdm import tqdm
from wasabi import Printer

from ..system.printable import PrintableFormatter, printable

T = TypeVar("T")

SECONDS = 30  # between two lines of a log
_LINE = "{desc}: {n_fmt}{unit} [{elapsed}, {rate_fmt}{postfix}]"
_LINE_WITH_TOTAL = (
    "{desc}: {percentage:3.0f}%, {n_fmt} of {total_fmt}{unit} "
    "[{elapsed}<{remaining}, {rate_fmt}{postfix}]"
)


def say(text: str, **style: Any) -> None:
    """Print a text on stdout, in one of click's styles."""
    typer.secho(printable(text), **style)


def say_error(message: object) -> None:
    """Print an error in one line on stderr. (wasabi would break it, and print it to stdout.)"""
    say(f"Error: {message}", fg=typer.colors.RED, err=True)


class _Messages(Printer):
    """wasabi's messages; all of its ways to print them end here."""

    def text(self, title: Any = "", text: Any = "", *style: Any, **styles: Any) -> str | None:
        return super().text(printable(str(title)), printable(str(text)), *style, **styles)


msg = _Messages()


@contextmanager
def log_on_stderr() -> Iterator[None]:
    """Within the block, what the package logs is printed on stderr: warnings, if not told more."""
    logger, handler = logging.getLogger("spacy_pel"), logging.StreamHandler()
    handler.setFormatter(PrintableFormatter())
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def progress_bar(items: Iterable | None = None, *, desc: str = "", **settings: Any) -> tqdm:
    """A bar of tqdm on stderr. If that is no terminal, lines: one every 30 seconds, and the last.

    Args:
        items: What the bar counts while it is iterated over; None if ``update`` counts.
        desc: What is done.
        **settings: Those of tqdm.
    """
    settings["desc"] = printable(desc)
    if sys.stderr.isatty():
        return tqdm(items, dynamic_ncols=True, **settings)
    return _Lines(items, mininterval=SECONDS, miniters=1, leave=False, **settings)


def counted(items: Iterable[T], desc: str, unit: str = " entities") -> Iterator[T]:
    """The items. Their bar begins with the first, so that its rate is right."""
    yield from progress_bar(items, desc=desc, unit=unit)


def reading(entities: Iterable[T], name: str) -> Iterator[T]:
    """The entities of a source, with a bar."""
    return counted(entities, f"Reading {name}")


reading_names = partial(counted, desc="Reading names")
encoding = partial(progress_bar, desc="Encoding", unit=" entities")  # whose vectors are computed


class _Lines(tqdm):
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
        values["bar_format"] = (values["bar_format"] or default).replace(" |{bar}|", "")
        self.fp.write(self.format_meter(**values).strip() + "\n")
        self.fp.flush()
