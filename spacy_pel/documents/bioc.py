"""BioC XML: collections of documents in passages.

Read and written with the standard library. PyPI's "bioc" says nothing of the offsets, fails on the
first odd document, and brings lxml and four more packages, of which it needs one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn
from xml.etree import ElementTree
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from ..errors import PelError
from .bioc_parts import document_of_parts
from .docs import passages_of
from .document import Passage
from .format import LONGEST, REST_LOST, Input, TextOutput, document_id
from .linked import linked_mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc


_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n'
    "<collection><source>spacy_pel</source><date/><key/>\n"
)
_TAIL = "</collection>\n"
_BLOCK = 1 << 16
# What XML cannot hold becomes U+FFFD, one character for one; a carriage return would be lost.
_NO_XML = dict.fromkeys(
    (*range(9), 11, 12, *range(14, 32), *range(55296, 57344), 65534, 65535), "�"
)


def _documents(file: BinaryIO, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The documents as plain data, one in memory at a time."""
    number = 0
    try:
        for element in _elements(file):
            if element.tag == "document":
                number += 1
                yield f"document {number}", _plain_document(element)
    except (ElementTree.ParseError, expat.ExpatError) as error:
        raise PelError(f"bad XML after document {number} ({error})", "fetch it again") from error
    except LookupError as error:
        raise PelError(f"cannot be decoded ({error})", "save it as UTF-8") from error
    if not number:
        raise PelError("no document in it", "give a BioC collection")


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
            f"declares the entity {name!r}, which BioC does not need", "remove the declaration"
        )

    parser.EntityDeclHandler = refuse
    return parser


def _plain_document(element: ElementTree.Element) -> dict[str, Any]:
    return {
        "id": element.findtext("id", ""),
        "infons": _infons(element),
        "passages": [_plain_passage(passage) for passage in element.iterfind("passage")],
        "annotations": _annotations(element),
    }


def _plain_passage(element: ElementTree.Element) -> dict[str, Any]:
    sentences = list(element.iterfind("sentence"))
    text = element.findtext("text")
    holders = [element] if text or (text is not None and not sentences) else sentences
    return {
        "infons": _infons(element),
        "texts": [[e.findtext("offset", ""), e.findtext("text", "")] for e in holders],
        "annotations": [a for e in (element, *sentences) for a in _annotations(e)],
    }


def _infons(element: ElementTree.Element) -> dict[str, str]:
    return {infon.get("key", ""): infon.text or "" for infon in element.iterfind("infon")}


def _annotations(element: ElementTree.Element) -> list[dict[str, Any]]:
    return [
        {
            "infons": _infons(annotation),
            "text": annotation.findtext("text"),
            "locations": [
                [location.get("offset", ""), location.get("length", "")]
                for location in annotation.iterfind("location")
            ],
        }
        for annotation in element.iterfind("annotation")
    ]


def _text(number: int, doc: Doc, spans_key: str | None) -> str:
    passages, full_text = passages_of(doc), doc.text  # spaCy joins the tokens each time
    numbered = enumerate(linked_mentions(doc, spans_key), start=1)
    mentions = _by_passage(passages, numbered)
    lines = ["<document>" + _element("id", document_id(number, doc))]
    lines.append(_infon_text(doc.user_data.get("infons", {}).items()))
    for passage, inside in zip(passages, mentions):
        text = _element("text", full_text[passage.start : passage.end])
        lines.append(f"<passage>{_infon_text(passage.infons.items())}")
        lines.append(f"<offset>{passage.start}</offset>{text}")
        lines += [_annotation(n, mention) for n, mention in inside]
        lines.append("</passage>")
    return "\n".join([*filter(None, lines), "</document>\n"])


def _by_passage(
    passages: Sequence[Passage], mentions: Iterable[tuple[int, dict[str, Any]]]
) -> list[list[tuple[int, dict[str, Any]]]]:
    """The mentions of each passage: those that begin before the next passage."""
    following = [passage.start for passage in passages[1:]]
    inside: list[list[tuple[int, dict[str, Any]]]] = [[] for _ in passages]
    for number, mention in mentions:
        inside[bisect_right(following, mention["start"])].append((number, mention))
    return inside


def _annotation(number: int, mention: dict[str, Any]) -> str:
    infons = [("type", mention["label"]), ("identifier", mention["id"]), ("name", mention["name"])]
    infons += [(key, mention[key]) for key in ("score", "probability")]
    start, end = mention["start"], mention["end"]
    return (
        f'<annotation id="{number}">{_infon_text((k, v) for k, v in infons if v is not None)}'
        f'<location offset="{start}" length="{end - start}"/>'
        f"{_element('text', mention['text'])}</annotation>"
    )


def _infon_text(infons: Iterable[tuple[str, Any]]) -> str:
    return "".join(
        f"<infon key={quoteattr(key.translate(_NO_XML))}>{_escaped(str(value))}</infon>"
        for key, value in infons
    )


def _element(tag: str, text: str) -> str:
    return f"<{tag}>{_escaped(text)}</{tag}>"


def _escaped(text: str) -> str:
    return escape(text.translate(_NO_XML), {"\r": "&#13;"})


INPUT = Input(_documents, document_of_parts, has_ids=True)
OUTPUT = TextOutput(_text, _HEAD, _TAIL)
