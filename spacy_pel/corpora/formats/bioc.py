"""BioC in XML and in JSON, and citations of PubMed in XML, which are converted to BioC JSON.

The package "bioc" does not check offsets, fails at the first faulty document, and has five dependencies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape, quoteattr

from ...errors import PelError
from ...io.xml_elements import xml_elements
from ..doc_conversion import linked_mentions, passages_of, plain_text
from ..document import Document, Mention, Passage, checked_mentions, curated_ids, mention_at
from . import jats
from .base import MAX_DOCUMENT_BYTES, BoundedFile, Format, Input, TextOutput, document_id

if TYPE_CHECKING:
    from spacy.tokens import Doc

_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n'
    "<collection><source>spacy_pel</source><date/><key/>\n"
)
_TAIL = "</collection>\n"
# Characters that XML cannot hold become U+FFFD, so that offsets stay the same.
_NO_XML = dict.fromkeys(
    (*range(9), 11, 12, *range(14, 32), *range(55296, 57344), 65534, 65535), "\ufffd"
)


def _split(file: BoundedFile) -> Iterator[tuple[str, dict[str, Any]]]:
    readers, number = {"document": _object, "PubmedArticle": _citation}, 0
    elements = xml_elements(file, longest=MAX_DOCUMENT_BYTES)
    for element in elements:
        if element.tag in readers:
            documents: Iterable[dict[str, Any]] = [readers[element.tag](element)]
        elif jats.tag_of(element) in jats.PARTS:  # the file is one article
            documents = [jats.article(chain([element], elements))]
        else:
            articles = (child for child in element.iter() if jats.tag_of(child) == "article")
            documents = map(jats.article, articles)
        for data in documents:
            number += 1
            yield f"document {number}", data
    if not number:
        remedy = "give a BioC collection, a file of PubMed, or articles of PubMed Central (JATS)"
        raise PelError("no document in it", remedy)


def _document(data: dict[str, Any]) -> Document:
    return jats.document_of_article(data) if "ids" in data else document_of_bioc(data)


def _object(element: Element) -> dict[str, Any]:
    """Return an element of BioC XML as in BioC JSON."""
    texts = {key: element.findtext(key) for key in ("id", "offset", "text")}
    parts = ("passage", "sentence", "annotation")
    return {
        **{key: text for key, text in texts.items() if text is not None},
        **{f"{tag}s": [_object(child) for child in element.iterfind(tag)] for tag in parts},
        "infons": {infon.get("key", ""): infon.text or "" for infon in element.iterfind("infon")},
        "locations": [dict(location.attrib) for location in element.iterfind("location")],
    }


def _citation(element: Element) -> dict[str, Any]:
    """Return a citation as in BioC JSON: the title and the sections of the abstract."""
    article = "MedlineCitation/Article"
    parts = [("title", part) for part in element.findall(f"{article}/ArticleTitle")[:1]]
    parts += [("abstract", part) for part in element.iterfind(f"{article}/Abstract/AbstractText")]
    passages: list[dict[str, Any]] = []
    offset = 0
    for kind, part in parts:
        if text := " ".join("".join(part.itertext()).split()):  # without its markup (<i>, <sup>)
            infons = {"type": kind, "label": part.get("Label") or None}
            passages.append({"offset": offset, "text": text, "infons": infons})
            offset += len(text) + 1
    return {"id": element.findtext("MedlineCitation/PMID", ""), "passages": passages}


def document_of_bioc(data: dict[str, Any]) -> Document:
    """Return the document of an object in BioC JSON.

    Raises:
        PelError: The object is no document, or its offsets are wrong.
    """
    try:
        passages, texts, end = [], [], 0
        annotations = list(data.get("annotations") or ())
        for passage in data["passages"]:
            sentences, text = passage.get("sentences") or [], passage.get("text")
            holders = [passage] if text or (text is not None and not sentences) else sentences
            start = None
            for holder in holders:
                place, more = _integer(holder["offset"]), holder.get("text") or ""
                if not end <= place <= MAX_DOCUMENT_BYTES:
                    problem = f"a passage at {place}, but the text before it ends at {end}"
                    remedy = (
                        f"correct the offsets, which count characters up to {MAX_DOCUMENT_BYTES:,}"
                    )
                    raise PelError(problem, remedy)
                texts += [" " * (place - end), more]
                start, end = place if start is None else start, place + len(more)
            passages.append(Passage(end if start is None else start, end, _infons(passage)))
            for holder in (passage, *sentences):
                annotations += holder.get("annotations") or ()
        whole = "".join(texts)
        mentions, faults = checked_mentions(partial(_mention, whole), annotations)
        id = str(data.get("id", "")).strip() or None
        known = mentions if annotations else None
        return Document(whole, id, known, tuple(passages), _infons(data), faults)
    except (AttributeError, KeyError, TypeError) as error:
        problem = f"not BioC ({type(error).__name__}: {error})"
        raise PelError(problem, "correct the document") from error


def _infons(holder: dict[str, Any]) -> dict[str, str]:
    infons = holder.get("infons") or {}
    return {key: str(value) for key, value in infons.items() if value is not None}


def _mention(text: str, annotation: dict[str, Any]) -> Mention:
    """Return the mention of an annotation, which spans all its locations."""
    expected = annotation.get("text")
    places = [(_integer(at["offset"]), _integer(at["length"])) for at in annotation["locations"]]
    if not places:
        raise PelError(f"the annotation {expected!r} has no location", "give it one")
    infons = _infons(annotation)
    return mention_at(
        text,
        min(offset for offset, _ in places),
        max(offset + length for offset, length in places),
        infons.get("type", ""),
        curated_ids(infons.get("identifier", "")),
        expected=expected if len(places) == 1 else None,
    )


def _integer(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        problem = f"an offset or a length is {value!r}, no whole number"
        raise PelError(problem, "correct it") from None


def _text(number: int, doc: Doc, spans_key: str | None) -> str:
    passages, full_text = passages_of(doc), doc.text  # spaCy joins the tokens at each call
    # A mention is in the last passage that begins before it.
    following = [passage.start for passage in passages[1:]]
    inside: list[list[str]] = [[] for _ in passages]
    for n, mention in enumerate(linked_mentions(doc, spans_key), start=1):
        start, length = mention["start"], mention["end"] - mention["start"]
        infons = {"type": mention["label"], "identifier": mention["id"]}
        infons |= {key: mention[key] for key in ("name", "score", "probability")}
        infons |= {key: plain_text(value) for key, value in mention.get("attributes", {}).items()}
        inside[bisect_right(following, start)].append(
            f'<annotation id="{n}">{_infon_text(infons)}<location offset="{start}" '
            f'length="{length}"/><text>{_escaped(mention["text"])}</text></annotation>'
        )
    lines = [f"<document><id>{_escaped(document_id(number, doc))}</id>"]
    lines.append(_infon_text(doc.user_data.get("infons", {})))
    for passage, written in zip(passages, inside):
        lines.append(f"<passage>{_infon_text(passage.infons)}")
        text = f"<text>{_escaped(full_text[passage.start : passage.end])}</text>"
        lines += [f"<offset>{passage.start}</offset>{text}", *written, "</passage>"]
    return "\n".join([*filter(None, lines), "</document>\n"])


def _infon_text(infons: dict[str, Any]) -> str:
    return "".join(
        f"<infon key={quoteattr(key.translate(_NO_XML))}>{_escaped(str(value))}</infon>"
        for key, value in infons.items()
        if value is not None
    )


def _escaped(text: str) -> str:
    return escape(text.translate(_NO_XML), {"\r": "&#13;"})


_INPUT = Input(_split, _document, has_ids=True)
FORMATS = (
    Format("bioc", (".xml",), _INPUT, TextOutput(_text, _HEAD, _TAIL)),
    Format("jats", (".nxml",), _INPUT._replace(has_ids=False)),
)
