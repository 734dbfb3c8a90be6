"""DocBin, spaCy's format with all annotations, and the limits of its unpacked size.

Without limits, a file of 2 MB could exhaust the memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import PelError
from .base import MAX_DOCUMENT_BYTES, BoundedFile, Format, Input, NumberedDocs

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, DocBin

MAX_FILE_BYTES = 2**30  # bytes of a file, which is held in memory
MAX_UNPACKED_BYTES = 5 * 2**26  # held twice for a moment, which takes 0.9 GB
_PART = 2**12  # bytes, which unpack to at most a thousand times as many
MAX_DOCUMENTS = 1_000_000
MAX_TOKENS = 1_000_000  # of one document: the default of ``nlp.max_length``, in characters
MAX_VALUES = 10_000_000  # strings, numbers, and lists outside arrays
_SPLIT = "split it into several files, and give their folder"


def _split(file: BoundedFile) -> Iterator[tuple[str, Any]]:
    from spacy.attrs import LENGTH
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    try:
        data = file.file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise PelError(
                f"longer than {MAX_FILE_BYTES:,} bytes, and it would be held in memory",
                _SPLIT,
            )
        docs = _limited(data)
        # Each document with its strings: in a memory zone, those of earlier documents are forgotten.
        for number, doc in enumerate(docs.get_docs(Vocab()), start=1):
            # A DocBin stores each word once, so a small file can contain an endless text.
            if int(doc.to_array(LENGTH).sum()) > MAX_DOCUMENT_BYTES:
                error = PelError(f"longer than {MAX_DOCUMENT_BYTES:,} characters", "split it")
                yield f"document {number}", error
            else:
                single = DocBin(docs.attrs, store_user_data=True, docs=[doc])
                yield f"document {number}", single.to_bytes()
    except (OSError, PelError):
        raise
    except Exception as error:  # of zlib, of msgpack, or of its content
        raise PelError("not a DocBin", "write it with DocBin.to_disk") from error


def _limited(data: bytes) -> DocBin:
    """Return the DocBin of these bytes; PelError if it would unpack to more than the limits."""
    import numpy
    from spacy.tokens import DocBin

    packed, size = zlib.decompressobj(), 0
    for start in range(0, len(data), _PART):  # never hold more than the limit
        size += len(packed.decompress(data[start : start + _PART]))
        if size > MAX_UNPACKED_BYTES:
            problem = f"a DocBin that unpacks to more than {MAX_UNPACKED_BYTES:,} bytes"
            raise PelError(problem, _SPLIT)
    message = dict(_values(zlib.decompress(data)))
    lengths = numpy.frombuffer(message["lengths"], dtype="int32")
    longest = lengths.max(initial=0)
    if len(lengths) > MAX_DOCUMENTS:
        raise PelError(f"a DocBin of more than {MAX_DOCUMENTS:,} documents", _SPLIT)
    if longest > MAX_TOKENS:
        problem = (
            f"document {lengths.argmax() + 1} has {longest:,} tokens, more than {MAX_TOKENS:,}"
        )
        raise PelError(problem, "split the document")
    for part in ("user_data", "span_groups"):
        for packed in filter(None, message.get(part, ())):
            _values(packed)  # of one document, because documents are read one at a time
    del message
    return DocBin().from_bytes(data)


def _values(packed: bytes) -> Any:
    """Unpack msgpack, with maps as pairs; PelError if it has more than MAX_VALUES values."""
    from srsly.msgpack import unpackb

    too_many = PelError(f"a DocBin of more than {MAX_VALUES:,} values", _SPLIT)
    count = 0

    def counted(values: list) -> list:
        nonlocal count
        count += len(values)
        if count > MAX_VALUES:
            raise too_many
        return values

    limits = {"max_array_len": MAX_VALUES, "max_map_len": MAX_VALUES}
    try:
        return unpackb(packed, raw=False, list_hook=counted, object_pairs_hook=counted, **limits)
    except ValueError as error:
        if "exceeds max_" in str(error):  # raised before such a list is made
            raise too_many from error
        raise


def _doc(nlp: Language | None, data: bytes) -> Doc:
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    (doc,) = DocBin().from_bytes(data).get_docs(nlp.vocab if nlp else Vocab())
    return doc


class _Output:
    """Writes a DocBin, which is held in memory when the parts are joined."""

    def write_part(self, docs: NumberedDocs, spans_key: str | None, path: Path) -> None:
        from spacy.tokens import DocBin

        DocBin(store_user_data=True, docs=(doc for _, doc in docs)).to_disk(path)

    def join(self, parts: Sequence[Path], path: Path) -> None:
        from spacy.tokens import DocBin

        docs = DocBin(store_user_data=True)
        for part in parts:
            docs.merge(DocBin(store_user_data=True).from_disk(part))
        docs.to_disk(path)


FORMAT = Format("docbin", (".spacy",), Input(_split, None, has_ids=True, doc=_doc), _Output())
