"""All that commands print, without the control characters that texts of users may hold.

Names of a KB or a corpus could otherwise move the cursor, rename the window or hide a line.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from wasabi import Printer

from ..system.printable import printable


def say(text: str, **style: Any) -> None:
    """Print a text on stdout, in one of click's styles."""
    typer.secho(printable(text), **style)


def say_error(message: object) -> None:
    """Print an error in one line on stderr."""
    say(f"Error: {message}", fg=typer.colors.RED, err=True)


class _Messages(Printer):
    """wasabi's messages; all of its ways to print them end here."""

    def text(self, title: Any = "", text: Any = "", *style: Any, **styles: Any) -> str | None:
        return super().text(printable(str(title)), printable(str(text)), *style, **styles)


msg = _Messages()


class _PrintableLog(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


@contextmanager
def log_on_stderr() -> Iterator[None]:
    """Within the block, what the package logs is printed on stderr: warnings, if not told more."""
    logger, handler = logging.getLogger("spacy_pel"), logging.StreamHandler()
    handler.setFormatter(_PrintableLog())
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
