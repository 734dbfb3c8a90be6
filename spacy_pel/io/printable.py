"""Texts that are safe to print."""

import logging
import re

# All control characters but the tab and the line feed: with them escape sequences begin.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """The text without what could control a terminal, as a name of a KB or a request may."""
    return _CONTROL.sub("\ufffd", text)


class PrintableFormatter(logging.Formatter):
    """Writes a log, which may quote texts, with its tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        """The message without what could control a terminal."""
        return printable(super().format(record))
