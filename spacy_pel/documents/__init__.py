"""Documents in files: read to be linked, and written with what linking says of them."""

from .formats import FORMATS, format_named, format_of
from .source import Record, Source, open_source

__all__ = ["FORMATS", "Record", "Source", "format_named", "format_of", "open_source"]
