"""What a DocBin may unpack to: without limits, a file of 2 MB could fill the memory."""

from __future__ import annotations

import zlib
from typing import Any

import numpy
from spacy.attrs import LENGTH
from spacy.tokens import Doc, DocBin
from srsly.msgpack import unpackb

from ..errors import PelError
from .format import LONGEST

# Documents that people write unpack to ten to twenty times the size of their file.
MOST_BYTES, MOST_TIMES = 2**30, 50
MOST_DOCUMENTS = 1_000_000
MOST_TOKENS = 1_000_000  # of one document. spaCy reads no text with more characters, if not told to
MOST_VALUES = 10_000_000  # texts, numbers and lists in what is no array
_BLOCK = 1 << 16
_SPLIT = "split it into several files, and give their folder"


def limited_docbin(data: bytes) -> DocBin:
    """The DocBin of these bytes.

    Raises:
        PelError: It would unpack to more than the limits allow.
        Exception: It is none: those of zlib, of msgpack, and of what DocBin looks for.
    """
    _check_size(data)
    message = dict(_values(zlib.decompress(data)))
    lengths = numpy.frombuffer(message["lengths"], dtype="int32")
    if len(lengths) > MOST_DOCUMENTS:
        raise PelError(f"a DocBin of more than {MOST_DOCUMENTS:,} documents", _SPLIT)
    if lengths.max(initial=0) > MOST_TOKENS:
        number = int(lengths.argmax()) + 1
        raise PelError(
            f"document {number} has {lengths.max():,} tokens, more than {MOST_TOKENS:,}",
            "split the document",
        )
    for part in ("user_data", "span_groups"):
        for packed in filter(None, message.get(part, ())):
            _values(packed)  # of one document, as they are read one at a time later
    del message
    return DocBin().from_bytes(data)


def is_too_long(doc: Doc) -> bool:
    """Whether the text of a Doc has more than LONGEST characters; it is not put together for that.

    A DocBin holds each word once, so that a small file can give an endless text.
    """
    return int(doc.to_array(LENGTH).sum()) > LONGEST


def _check_size(data: bytes) -> None:
    """PelError if zlib's data would unpack to too much. What is unpacked is not kept."""
    limit = max(MOST_BYTES, MOST_TIMES * len(data))
    unpacker, size = zlib.decompressobj(), 0
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK]
        while block:
            size += len(unpacker.decompress(block, _BLOCK))
            block = unpacker.unconsumed_tail
            if size > limit:
                raise PelError(f"a DocBin that unpacks to more than {limit:,} bytes", _SPLIT)


def _values(packed: bytes) -> Any:
    """What msgpack holds, maps as pairs; PelError if that is more than MOST_VALUES values."""
    count = 0

    def counted(values: list) -> list:
        nonlocal count
        count += len(values)
        if count > MOST_VALUES:
            raise _too_many()
        return values

    most = {"max_array_len": MOST_VALUES, "max_map_len": MOST_VALUES}
    try:
        return unpackb(packed, raw=False, list_hook=counted, object_pairs_hook=counted, **most)
    except ValueError as error:
        if "exceeds max_" in str(error):  # said before such a list is made
            raise _too_many() from error
        raise


def _too_many() -> PelError:
    return PelError(f"a DocBin of more than {MOST_VALUES:,} values", _SPLIT)
