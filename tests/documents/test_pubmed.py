"""Citations as PubMed's baseline files hold them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from spacy_pel.documents import open_documents
from spacy_pel.errors import PelError

HEAD = (
    '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE PubmedArticleSet PUBLIC '
    '"-//NLM//DTD PubMedArticle, 1st January 2025//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">\n<PubmedArticleSet>'
)
CITATION = (
    '<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="1">{}</PMID><Article>'
    "<ArticleTitle>{}</ArticleTitle>{}</Article></MedlineCitation>"
    "<PubmedData><ArticleIdList><ArticleId>x</ArticleId></ArticleIdList></PubmedData></PubmedArticle>"
)
ABSTRACT = (
    '<Abstract><AbstractText Label="METHODS">We gave <i>E. coli</i>\n Ca<sup>2+</sup>.</AbstractText>'
    "<AbstractText/><AbstractText>It grew.</AbstractText>"
    "<CopyrightInformation>(c)</CopyrightInformation></Abstract>"
)


def test_title_and_sections_are_passages(tmp_path: Path) -> None:
    path = tmp_path / "pubmed25n0001.xml.gz"
    deleted = "<DeleteCitation><PMID>3</PMID></DeleteCitation>"
    citations = CITATION.format(1, "On <b>growth</b>.", ABSTRACT) + CITATION.format(2, "Alone", "")
    path.write_bytes(gzip.compress(f"{HEAD}{citations}{deleted}</PubmedArticleSet>".encode()))
    first, second = (raw.document() for raw in open_documents(str(path)))
    assert (first.id, first.mentions) == ("1", None)
    assert first.text == "On growth. We gave E. coli Ca2+. It grew."
    assert first.title == "On growth."
    assert [first.text[p.start : p.end] for p in first.passages[1:]] == [
        "We gave E. coli Ca2+.",
        "It grew.",
    ]
    assert first.passages[1].infons == {"type": "abstract", "label": "METHODS"}
    assert (second.id, second.text) == ("2", "Alone")


def test_xml_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<html><body/></html>")
    with pytest.raises(PelError, match="no document in it; give a BioC collection, or a file of P"):
        [raw.document() for raw in open_documents(str(path))]
