"""From source files to entities: one module for each format."""

from .entity_source import ReadOptions, Source, SourceFormat
from .rrf import UmlsRecipe
from .source_formats import detected_format, format_names, open_source

__all__ = [
    "ReadOptions",
    "Source",
    "SourceFormat",
    "UmlsRecipe",
    "detected_format",
    "format_names",
    "open_source",
]
