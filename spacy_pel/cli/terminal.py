"""All that commands print: messages, the log, and bars that show how far they have come.

None of it has the control characters that texts of users may hold. Names of a KB or a corpus could
otherwise move the cursor, rename the window or hide a line.
"""

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import typer
from tqdm import tqdm
from wasabi import Printer

from ..io.printable import PrintableFormatter, printable

T = TypeVar("T")

SECONDS = 30  # between two lines of a log


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


class _BesideBars(logging.Handler):
    """Writes a log on stderr, where bars may be drawn."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record), file=sys.stderr)


@contextmanager
def log_on_stderr() -> Iterator[None]:
    """Within the block, what the package logs is printed on stderr: warnings, and of long work all."""
    logger, handler = logging.getLogger("spacy_pel"), _BesideBars()
    handler.setFormatter(PrintableFormatter())
    logger.addHandler(handler)
    of_work = [logging.getLogger(f"spacy_pel.{room}") for room in ("batch", "package")]
    for each in of_work:
        each.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        for each in of_work:
            each.setLevel(logging.NOTSET)


class _Log:
    """Stderr that is no terminal: what tqdm draws anew, it gets as lines."""

    def write(self, text: str) -> None:
        """Write what is not blank as a line."""
        if line := text.strip():
            print(line, file=sys.stderr, flush=True)

    def flush(self) -> None:
        """Nothing waits to be written."""


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
    return tqdm(items, file=_Log(), mininterval=SECONDS, miniters=1, **settings)


def counted(items: Iterable[T], desc: str, unit: str = " entities") -> Iterator[T]:
    """The items. Their bar begins with the first, so that its rate is right."""
    yield from progress_bar(items, desc=desc, unit=unit)


def reading(entities: Iterable[T], name: str) -> Iterator[T]:
    """The entities of a source, with a bar."""
    return counted(entities, f"Reading {name}")


reading_names = partial(counted, desc="Reading names")
encoding = partial(progress_bar, desc="Encoding", unit=" entities")  # whose vectors are computed
