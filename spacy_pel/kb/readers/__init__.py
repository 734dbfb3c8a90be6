"""From source files to entities: one module for each format."""

from .entity_source import ReadOptions as ReadOptions
from .entity_source import Source as Source
from .entity_source import SourceFormat as SourceFormat
from .rrf import UmlsRecipe as UmlsRecipe
from .source_formats import SOURCE_FORMATS as SOURCE_FORMATS
from .source_formats import detected_format as detected_format
from .source_formats import open_source as open_source
