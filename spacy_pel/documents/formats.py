"""The one list of file formats. To add one: a module beside this one, and a line here."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import PelError
from . import bioc, docbin, json_formats, pubtator, tables, text
from .format import Format

FORMATS = (
    text.FORMAT,
    *json_formats.FORMATS,
    *tables.FORMATS,
    pubtator.FORMAT,
    bioc.FORMAT,
    docbin.FORMAT,
)


def format_of(name: str) -> Format | None:
    """The format of files of this name, the longest suffix deciding; None if there is none."""
    pairs = [(suffix, format) for format in FORMATS for suffix in format.suffixes]
    fitting = [pair for pair in pairs if name.lower().endswith(pair[0])]
    return max(fitting, key=lambda pair: len(pair[0]))[1] if fitting else None


def format_named(name: str) -> Format:
    """The format with this name; PelError if there is none."""
    for format in FORMATS:
        if format.name == name:
            return format
    names = ", ".join(format.name for format in FORMATS)
    raise PelError(f'no format "{name}"', f"choose one of: {names}")


def suffixes(direction: str) -> str:
    """The suffixes of what can be read ("input"), or written ("output"), for messages."""
    return _joined(format for format in FORMATS if getattr(format, direction) is not None)


def suffixes_with_ids() -> str:
    """The suffixes of what can be read and has entity ids, for messages."""
    return _joined(format for format in FORMATS if format.input and format.input.has_ids)


def _joined(formats: Iterable[Format]) -> str:
    return ", ".join(suffix for format in formats for suffix in format.suffixes)
