"""BioC XML: collections of documents in passages. ``xml_files`` finds the documents in a file.

Read and written with the standard library. PyPI's "bioc" says nothing of the offsets, fails on the
first odd document, and brings lxml and four more packages, of which it needs one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from .docs import passages_of
from .document import Passage
from .format import TextOutput, document_id
from .linked import linked_mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc


_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n'
    "<collection><source>spacy_pel</source><date/><key/>\n"
)
_TAIL = "</collection>\n"
# What XML cannot hold becomes U+FFFD, one character for one; a carriage return would be lost.
_NO_XML = dict.fromkeys(
    (*range(9), 11, 12, *range(14, 32), *range(55296, 57344), 65534, 65535), "�"
)


def plain_bioc(element: ElementTree.Element) -> dict[str, Any]:
    """A document of a collection as plain data; see ``bioc_parts``."""
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


OUTPUT = TextOutput(_text, _HEAD, _TAIL)
