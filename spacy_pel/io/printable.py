"""Text without control characters, which is safe to print."""

import logging
import re

# All control characters except the tab and the line feed. Escape sequences begin with one.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Replace the characters that could control a terminal, for example in a name or a request."""
    return _CONTROL.sub("\ufffd", text)


class PrintableFormatter(logging.Formatter):
    """A formatter that makes log messages and tracebacks ``printable``, because they may quote texts."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
