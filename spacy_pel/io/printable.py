"""Text without control characters, which is safe to print."""

import logging
import re

# All control characters except the tab and the line feed. Escape sequences begin with one.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Replace the characters that could control a terminal, as in a name of a KB or a request."""
    return _CONTROL.sub("\ufffd", text)


class PrintableFormatter(logging.Formatter):
    """Makes log messages and tracebacks ``printable``: they may quote texts."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
