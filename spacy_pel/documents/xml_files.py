"""XML files of documents, as streams: collections of BioC, and citations as PubMed gives them.

What stands below the root says which of the two it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn
from xml.etree import ElementTree
from xml.parsers import expat

from ..errors import PelError
from .bioc import plain_bioc
from .bioc_parts import document_of_parts
from .format import LONGEST, REST_LOST, Input
from .pubmed import plain_citation

# By tag of an element below the root: what makes plain data of it, as ``bioc_parts`` has it.
_DOCUMENTS = {"document": plain_bioc, "PubmedArticle": plain_citation}
_BLOCK = 1 << 16


def _documents(file: BinaryIO, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The documents as plain data, one in memory at a time."""
    number = 0
    try:
        for element in _elements(file):
            if plain := _DOCUMENTS.get(element.tag):
                number += 1
                yield f"document {number}", plain(element)
    except (ElementTree.ParseError, expat.ExpatError) as error:
        raise PelError(f"bad XML after document {number} ({error})", "fetch it again") from error
    except LookupError as error:
        raise PelError(f"cannot be decoded ({error})", "save it as UTF-8") from error
    if not number:
        raise PelError("no document in it", "give a BioC collection, or a file of PubMed")


def _elements(file: BinaryIO) -> Iterator[ElementTree.Element]:
    """The elements below the root, when they end; they are taken from it after that."""
    parser = ElementTree.XMLPullParser(("start", "end"))
    guard: Any = _guard()
    path: list[ElementTree.Element] = []
    size = 0  # of the element that is being read, to a block
    while block := file.read(_BLOCK):
        if not path:
            guard.Parse(block)  # before the parser sees it
        parser.feed(block)
        size += len(block)
        for element in _ended(parser, path):
            size = 0
            yield element
        if size > LONGEST:
            raise PelError(f"a document of more than {LONGEST:,} bytes{REST_LOST}", "split it")
    parser.close()
    yield from _ended(parser, path)


def _ended(
    parser: ElementTree.XMLPullParser, path: list[ElementTree.Element]
) -> Iterator[ElementTree.Element]:
    for event, element in parser.read_events():
        if event == "start":
            path.append(element)
            continue
        path.pop()
        if len(path) == 1:
            yield element
            path[0].clear()


def _guard() -> Any:
    """A parser that refuses entities, which can grow, or name other files.

    They can only be declared before the first element. (defusedxml refuses them as well, but at the
    price of a parser in Python, which takes four times as long.)
    """
    parser = expat.ParserCreate()

    def refuse(name: str, *_: object) -> NoReturn:
        raise PelError(
            f"declares the entity {name!r}, which is not needed", "remove the declaration"
        )

    parser.EntityDeclHandler = refuse
    return parser


INPUT = Input(_documents, document_of_parts, has_ids=True)
