"""Says when a download is not the one that the figures of the docs were taken with."""

from __future__ import annotations

from pathlib import Path

from wasabi import msg


def report_change(source: Path, what: str, expected: object, found: object) -> None:
    """Prints a line if something about a download is not as expected."""
    if str(expected) != str(found):
        msg.warn(f"{source} has changed: {what}: expected {expected}, found {found}")
