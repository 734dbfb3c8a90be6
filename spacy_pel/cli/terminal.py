"""Messages, the log and progress bars on the terminal.

Control characters in the texts of users are replaced. Otherwise a name in a KB or a corpus could move
the cursor, rename the window or hide a line.
"""

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import typer
from tqdm import tqdm
from wasabi.printer import Printer

from ..io.printable import PrintableFormatter, printable

T = TypeVar("T")

LOG_SECONDS = 30  # between two lines of progress in a log


def say(text: str, **style: Any) -> None:
    """Print a text on stdout, in one of click's styles."""
    typer.secho(printable(text), **style)


def say_error(message: object) -> None:
    """Print an error as one line on stderr, unlike wasabi, which breaks lines and prints on stdout."""
    say(f"Error: {message}", fg=typer.colors.RED, err=True)


class _Messages(Printer):
    """wasabi's printer with printable texts: all its methods call ``text``."""

    def text(self, title: Any = "", text: Any = "", *style: Any, **styles: Any) -> str | None:
        return super().text(printable(str(title)), printable(str(text)), *style, **styles)


msg = _Messages()


class _AboveBars(logging.Handler):
    """Write log records on stderr without breaking progress bars."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record), file=sys.stderr)


@contextmanager
def log_on_stderr() -> Iterator[None]:
    """Print the package's log on stderr within the block: warnings, and the progress of long work."""
    logger, handler = logging.getLogger("spacy_pel"), _AboveBars()
    handler.setFormatter(PrintableFormatter())
    logger.addHandler(handler)
    long_work = [logging.getLogger(f"spacy_pel.{package}") for package in ("batch", "package")]
    for worker in long_work:
        worker.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        for worker in long_work:
            worker.setLevel(logging.NOTSET)


class _LogFile:
    """A file for tqdm that prints each redrawn bar as a line on stderr."""

    def write(self, text: str) -> None:
        """Print the text as a line unless it is blank."""
        if line := text.strip():
            print(line, file=sys.stderr, flush=True)

    def flush(self) -> None:
        """Do nothing: ``write`` flushes."""


def progress_bar(items: Iterable | None = None, *, desc: str = "", **settings: Any) -> tqdm:
    """Return a tqdm bar on stderr; without a terminal, it prints a line every 30 seconds and at the end.

    Args:
        items: The items that the bar counts while it is iterated over; None if ``update`` counts.
        desc: The label of the bar.
        **settings: Further settings of tqdm.
    """
    settings["desc"] = printable(desc)
    if sys.stderr.isatty():
        return tqdm(items, dynamic_ncols=True, **settings)
    return tqdm(items, file=_LogFile(), mininterval=LOG_SECONDS, miniters=1, **settings)


def counted(items: Iterable[T], desc: str, unit: str = " entities") -> Iterator[T]:
    """Yield the items, with a bar that starts at the first one so that its rate is correct."""
    yield from progress_bar(items, desc=desc, unit=unit)


def reading(entities: Iterable[T], name: str) -> Iterator[T]:
    """Yield the entities of the source with this name, with a bar."""
    return counted(entities, f"Reading {name}")


reading_names = partial(counted, desc="Reading names")
encoding = partial(progress_bar, desc="Encoding", unit=" entities")
