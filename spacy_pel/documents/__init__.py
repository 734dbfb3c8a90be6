"""Documents in files: read to be linked, and written with what linking says of them."""

from .document import Document, Mention, make_doc
from .formats import FORMATS, format_named, format_of
from .source import Record, Source, open_source

__all__ = [
    "FORMATS",
    "Document",
    "Mention",
    "Record",
    "Source",
    "format_named",
    "format_of",
    "make_doc",
    "open_source",
]
