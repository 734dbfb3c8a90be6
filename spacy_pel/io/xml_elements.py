"""XML files as streams of elements, in bounded memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast
from xml.etree import ElementTree
from xml.parsers import expat

from ..errors import PelError
from .lines import MAX_LINE_BYTES, opened_bytes

Events = Iterator[tuple[str, ElementTree.Element]]
_MIN_BLOCK = 1 << 16
MAX_ELEMENTS = 500_000  # of a record: an element of four bytes takes up to 400 in memory
_MAX_DEPTH = 100  # levels of nesting


class Readable(Protocol):
    """A file to read bytes from."""

    def read(self, n: int, /) -> bytes: ...


def xml_elements(
    file: Readable, *, longest: int = MAX_LINE_BYTES, longest_entity: int = 0
) -> Iterator[ElementTree.Element]:
    """Yield the children of the root as they end. Each is cleared before the next one.

    Raises:
        PelError: The XML is malformed or in an unknown encoding, an element has more than ``longest``
            bytes, or the file declares an entity of more than ``longest_entity`` characters. Entities
            that contain others or name files are always rejected, because they can grow without limit.
    """
    parser: ElementTree.XMLPullParser = ElementTree.XMLPullParser(("start", "end"))
    guard = _guard(longest_entity)
    path: list[ElementTree.Element] = []
    size = n_elements = 0
    # Expat parses a tag or a comment again for each block that it extends into.
    block_size = max(_MIN_BLOCK, longest >> 6)
    try:
        for block in iter(lambda: file.read(block_size), b""):
            if not path:
                guard.Parse(block)  # before the parser sees it
            parser.feed(block)
            size += len(block)
            for event, element in cast(Events, parser.read_events()):
                if event == "start":
                    path.append(element)
                    n_elements += 1
                    if n_elements > MAX_ELEMENTS or len(path) > _MAX_DEPTH:
                        limit = f"{MAX_ELEMENTS:,} elements or {_MAX_DEPTH} levels"
                        raise PelError(f"a record of more than {limit}", "split the record")
                    continue
                path.pop()
                if len(path) == 1:
                    size = n_elements = 0
                    yield element
                    path[0].clear()
            if size > longest:
                raise PelError(f"no end of a record in {longest:,} bytes", "split the record")
        parser.close()
    except (ElementTree.ParseError, expat.ExpatError) as error:
        raise PelError(f"bad XML ({error})", "fetch it again") from error
    except PelError:
        raise
    except (LookupError, ValueError) as error:
        raise PelError(f"cannot be decoded ({error})", "save it as UTF-8") from error


def file_elements(path: Path, *, longest_entity: int = 0) -> Iterator[ElementTree.Element]:
    """Yield the ``xml_elements`` of a plain or compressed file. Errors name the file."""
    with opened_bytes(path) as file:
        try:
            yield from xml_elements(file, longest_entity=longest_entity)
        except PelError as error:
            raise error.at(str(path)) from error


def _guard(longest: int) -> expat.XMLParserType:
    """Return a parser for the text before the root that rejects dangerous entity declarations.

    defusedxml does the same with a parser in Python, which takes four times as long.
    """
    parser = expat.ParserCreate()

    def check(name: str, is_parameter: int, value: str | None, *_: object) -> None:
        if value is None or "&" in value or "%" in value or len(value) > longest:
            raise PelError(
                f"line {parser.CurrentLineNumber} declares the entity {name!r}",
                "remove the declaration, or fetch the file from its authors",
            )

    parser.EntityDeclHandler = check
    return parser
