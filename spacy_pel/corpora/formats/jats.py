"""Whole articles in JATS, the XML of PubMed Central."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from ...errors import PelError
from ..document import Document, Passage

PARTS = ("front", "body", "back", "floats-group")  # children of an article that are read
_LEFT_OUT = frozenset(
    """aff alt-text alt-title annotation author-notes chem-struct code contrib-group custom-meta-group
    disp-formula disp-formula-group graphic history index-term inline-graphic journal-meta label long-desc
    mixed-citation object-id permissions preformat processing-meta product ref-list related-article
    related-object response sub-article tex-math trans-abstract""".split()
)
# Elements that contain paragraphs. If they are inside a paragraph, they move behind it.
_BLOCKS = frozenset(
    """array boxed-text def-list disp-formula disp-formula-group disp-quote fig fig-group fn fn-group
    glossary list media speech statement supplementary-material table-wrap table-wrap-foot
    table-wrap-group verse-group""".split()
)
_TEXTS = frozenset("article-title def-item kwd p subtitle table title verse-line".split())
_ENDS = {"term": ": "} | dict.fromkeys("break def list-item p title".split(), " ")
# The type of the passages in an element, if it differs from that of the parent element.
_TYPES = {
    "title-group": "title",
    "title": "heading",
    **{tag: tag for tag in ("abstract", "caption", "table")},
    **dict.fromkeys(("fn", "table-wrap-foot"), "footnote"),
    "kwd": "keyword",
}
_SECTIONS = {"abstract": "Abstract", "ack": "Acknowledgements"} | dict.fromkeys(
    ("app", "glossary", "notes", "sec"), ""
)  # and their names without a title
_MAX_SECTION = 1_000  # characters; each passage has the section
_BETWEEN = "\n\n"  # passages: no mention goes beyond a blank line
_IDS = {"pmc": "pmc", "pmcid": "pmc", "pmid": "pmid", "doi": "doi"}  # kinds of ids, best first


def article(parts: Iterator[Element] | Element) -> dict[str, Any]:
    """Return the data of an article: its ids, and the type, section and text of its passages.

    ``parts`` are the children of its element. Other articles inside it, such as reviews, are left out.

    Raises:
        PelError: The article has two parts of the same kind.
    """
    ids: dict[str, str] = {}
    passages: dict[str, list[tuple[str, str, str]]] = {}
    for part in parts:
        tag = tag_of(part)
        if tag in passages:
            raise PelError(f"the article has two elements {tag!r}", "fetch it again")
        if tag in PARTS:
            passages[tag] = list(_passages(part, "paragraph", ""))
            for id in (id for id in part.iter() if tag_of(id) == "article-id" and tag == "front"):
                ids.setdefault(_IDS.get(id.get("pub-id-type", ""), ""), (id.text or "").strip())
    ids = {kind: ids[kind] for kind in _IDS if ids.get(kind)}
    if "pmc" in ids:
        ids["pmc"] = f"PMC{ids['pmc'].removeprefix('PMC')}"
    return {"ids": ids, "passages": [passage for part in passages.values() for passage in part]}


def document_of_article(data: dict[str, Any]) -> Document:
    """Return the document of ``article``: its passages, with a blank line between them.

    The infons of a passage are its "type" and, inside a section, the "section": its title and those of
    the sections that contain it.
    """
    places, start = [], 0
    for kind, section, text in data["passages"]:
        infons = {"type": kind, **({"section": section} if section else {})}
        places.append(Passage(start, start + len(text), infons))
        start += len(text) + len(_BETWEEN)
    ids = data["ids"]
    text = _BETWEEN.join(text for *_, text in data["passages"])
    return Document(text, next(iter(ids.values()), None), None, tuple(places), ids)


def tag_of(element: Element) -> str:
    """Return the tag of an element without its namespace, which some servers add to JATS."""
    return element.tag.rpartition("}")[2]


def _passages(element: Element, kind: str, section: str) -> Iterator[tuple[str, str, str]]:
    """Yield the type, the section, and the text of each passage of an element."""
    tag = tag_of(element)
    if tag in _LEFT_OUT:
        return
    if not (tag == "title" and kind == "caption"):
        kind = _TYPES.get(tag, kind)
    if tag in _TEXTS:
        texts, blocks = _contents(element)
        if text := _table(element) if tag == "table" else _joined(texts):
            yield kind, section, text
        for block in blocks:
            yield from _passages(block, kind, section)
        return
    if tag in _SECTIONS:
        title = next((child for child in element if tag_of(child) == "title"), None)
        name = _SECTIONS[tag] if title is None else _joined(_contents(title)[0])
        section = " > ".join(filter(None, (section, name)))[:_MAX_SECTION]
    for child in element:
        yield from _passages(child, kind, section)


def _contents(element: Element) -> tuple[list[str], list[Element]]:
    """Return the pieces of text of an element, and the blocks that move behind it."""
    texts, blocks = [element.text or ""], list[Element]()
    is_after_mark = False
    for child in element:
        tag = tag_of(child)
        if tag in _BLOCKS:
            blocks.append(child)
            texts.append(" ")
        elif _is_mark(child, is_after_mark):
            is_after_mark = not child.tail
        elif tag not in _LEFT_OUT:
            within, more = _contents(child)
            if tag == "math":  # white space in it has no meaning
                within = "".join(within).split()
            texts += [*within, _ENDS.get(tag, "")]
            blocks += more
        texts.append(child.tail or "")
    return texts, blocks


def _is_mark(element: Element, is_after_mark: bool) -> bool:
    """Return whether an element is the superscript mark of a citation or note, or between two marks."""
    tags = {tag_of(child) for child in element}
    if tag_of(element) == "xref":
        return "sup" in tags
    text = (element.text or "").strip()
    is_between = is_after_mark and not tags and text in (",", ";", "-", "\u2013")
    return tag_of(element) == "sup" and ("xref" in tags or is_between)


def _table(element: Element) -> str:
    """Return a table as text, with one row per line and bars between cells."""
    rows = ([_cell(cell) for cell in row] for row in element.iter() if tag_of(row) == "tr")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows if any(cells))


def _cell(element: Element) -> str:
    texts, blocks = _contents(element)
    return _joined([*texts, *(f" {_cell(block)}" for block in blocks)])


def _joined(texts: list[str]) -> str:
    return " ".join("".join(texts).split())
