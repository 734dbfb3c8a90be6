"""Documents in files: read to be linked or trained on, written with what linking says of them."""

from .doc_conversion import make_doc
from .document import Document, Mention, Passage
from .formats.lookup import format_named, format_of
from .open_documents import DocumentStream, RawDocument, open_documents
