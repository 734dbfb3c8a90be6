"""Documents in files: readers for linking and training, and writers of linked documents."""

from .doc_conversion import make_doc
from .document import Document, Mention, Passage
from .formats.lookup import format_named, format_of
from .open_documents import DocumentStream, RawDocument, open_documents
