"""Readers of source files, which yield entities: one module for each format."""

from .entity_source import ReadOptions as ReadOptions
from .entity_source import Source as Source
from .entity_source import SourceFormat as SourceFormat
from .source_formats import SOURCE_FORMATS as SOURCE_FORMATS
from .source_formats import detected_format as detected_format
from .source_formats import open_source as open_source
from .umls_recipe import UmlsRecipe as UmlsRecipe
