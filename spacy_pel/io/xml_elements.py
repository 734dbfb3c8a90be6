"""XML files as streams of elements."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast
from xml.etree import ElementTree

from ..errors import PelError
from .lines import MAX_LINE_BYTES, opened_bytes

Events = Iterator[tuple[str, ElementTree.Element]]
_MIN_BLOCK = 1 << 16


class Readable(Protocol):
    """A file to read bytes from."""

    def read(self, n: int, /) -> bytes: ...


def xml_elements(file: Readable, *, longest: int = MAX_LINE_BYTES) -> Iterator[ElementTree.Element]:
    """Yield the children of the root as they end. Each is cleared before the next one.

    Expat limits how far entities can grow, and ElementTree opens no other file.

    Raises:
        PelError: The XML is malformed or in an unknown encoding, or an element has more than ``longest``
            bytes.
    """
    parser: ElementTree.XMLPullParser = ElementTree.XMLPullParser(("start", "end"))
    path: list[ElementTree.Element] = []
    size = 0
    # Expat parses a tag or a comment again for each block that it extends into.
    block_size = max(_MIN_BLOCK, longest >> 6)
    try:
        for block in iter(lambda: file.read(block_size), b""):
            parser.feed(block)
            size += len(block)
            for event, element in cast(Events, parser.read_events()):
                if event == "start":
                    path.append(element)
                    continue
                path.pop()
                if len(path) == 1:
                    size = 0
                    yield element
                    path[0].clear()
            if size > longest:
                raise PelError(f"no end of a record in {longest:,} bytes", "split the record")
        parser.close()
    except ElementTree.ParseError as error:
        raise PelError(f"bad XML ({error})", "fetch it again") from error
    except PelError:
        raise
    except (LookupError, ValueError) as error:
        raise PelError(f"cannot be decoded ({error})", "save it as UTF-8") from error


def file_elements(path: Path) -> Iterator[ElementTree.Element]:
    """Yield the ``xml_elements`` of a plain or compressed file. Errors name the file."""
    with opened_bytes(path) as file:
        try:
            yield from xml_elements(file)
        except PelError as error:
            raise error.at(str(path)) from error
