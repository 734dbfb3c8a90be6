"""Citations of PubMed, as the National Library of Medicine gives them: pubmed25n0001.xml.gz.

The text is the title, a blank, and the sections of the abstract, joined by blanks.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree


def plain_citation(element: ElementTree.Element) -> dict[str, Any]:
    """A PubmedArticle as plain data, see ``bioc_parts``: its id is the PMID, it has no mentions."""
    article = "MedlineCitation/Article"
    parts = [("title", element.find(f"{article}/ArticleTitle"))]
    parts += [("abstract", part) for part in element.iterfind(f"{article}/Abstract/AbstractText")]
    passages: list[dict[str, Any]] = []
    offset = 0
    for kind, part in parts:
        if text := _text(part):
            infons = {"type": kind, **_label(part)}
            passages.append({"infons": infons, "texts": [[offset, text]], "annotations": []})
            offset += len(text) + 1
    pmid = element.findtext("MedlineCitation/PMID", "")
    return {"id": pmid, "infons": {}, "passages": passages, "annotations": []}


def _text(element: ElementTree.Element | None) -> str:
    """What an element says, without its markup (<i>, <sup>), and without line feeds."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _label(element: ElementTree.Element) -> dict[str, str]:
    """The heading of a section, for example {"label": "METHODS"}."""
    label = element.get("Label")
    return {"label": label} if label else {}
