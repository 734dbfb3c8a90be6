"""XML files as streams of elements, in bounded memory."""

from collections.abc import Iterator
from typing import IO
from xml.etree import ElementTree
from xml.parsers import expat

from ..errors import PelError
from .lines import LONGEST_LINE

_BLOCK = 1 << 16


def xml_elements(file: IO[bytes], *, longest: int = LONGEST_LINE) -> Iterator[ElementTree.Element]:
    """The elements right below the root, each when it ends. It is emptied after that.

    PelError if the XML is bad or in an unknown encoding, an element has more than ``longest`` bytes,
    or the file declares entities, which can grow without end.
    """
    parser = ElementTree.XMLPullParser(("start", "end"))
    guard = _guard()
    path: list[ElementTree.Element] = []
    size = 0
    try:
        for block in iter(lambda: file.read(_BLOCK), b""):
            if not path:
                guard.Parse(block)  # before the parser sees it
            parser.feed(block)
            size += len(block)
            for event, element in parser.read_events():
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
    except (ElementTree.ParseError, expat.ExpatError) as error:
        raise PelError(f"bad XML ({error})", "fetch it again") from error
    except PelError:
        raise
    except (LookupError, ValueError) as error:
        raise PelError(f"cannot be decoded ({error})", "save it as UTF-8") from error


def _guard() -> expat.XMLParserType:
    """A parser that refuses entities. They can only be declared before the root.

    (defusedxml does the same in a parser in Python, which takes four times as long.)
    """
    parser = expat.ParserCreate()

    def refuse(name: str, *_: object) -> None:
        raise PelError(
            f"line {parser.CurrentLineNumber} declares the entity {name!r}",
            "remove the declaration, or fetch the file from its authors",
        )

    parser.EntityDeclHandler = refuse
    return parser
