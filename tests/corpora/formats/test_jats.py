"""Whole articles as PubMed Central writes them. The article is our own; its passages are written by hand."""

from pathlib import Path

import pytest

from spacy_pel.corpora import Document, open_documents
from spacy_pel.errors import PelError

from ...conftest import write_text
from .examples import NLP

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal Archiving and Interchange DTD v1.3 20210610//EN"
 "JATS-archivearticle1-3-mathml3.dtd">
<?properties open_access?>
"""
ARTICLE = """<article xmlns:mml="http://www.w3.org/1998/Math/MathML"
 xmlns:xlink="http://www.w3.org/1999/xlink" article-type="research-article" xml:lang="en">
<front><journal-meta><journal-title-group><journal-title>J Test</journal-title></journal-title-group>
</journal-meta><article-meta><article-id pub-id-type="pmid">12345</article-id>
<article-id pub-id-type="pmc">7654321</article-id><article-id pub-id-type="doi">10.1/x</article-id>
<article-categories><subj-group><subject>Article</subject></subj-group></article-categories>
<title-group><article-title>Retinal
 <italic toggle="yes">Pax6</italic> in <sup>13</sup>C mice<xref ref-type="fn" rid="fn1"><sup>*</sup></xref>
</article-title><trans-title-group><trans-title>Titre</trans-title></trans-title-group></title-group>
<contrib-group><contrib><name><surname>Doe</surname></name></contrib></contrib-group>
<aff id="a1"><label>1</label>Institute of Things</aff>
<author-notes><fn><p>Contact: x@example.org</p></fn></author-notes><pub-date><year>2026</year></pub-date>
<permissions><license><license-p>CC BY</license-p></license></permissions>
<abstract><title>Summary</title><sec><title>Background</title><p>Aniridia (AN) is rare.</p></sec>
<sec><title>Results</title><p>It is not.</p></sec></abstract>
<trans-abstract xml:lang="fr"><p>L'aniridie.</p></trans-abstract>
<kwd-group><title>Keywords</title><kwd>aniridia</kwd><kwd>eye</kwd></kwd-group>
</article-meta></front>
<body>
<p>No section here.</p>
<sec id="s1"><label>1</label><title>Methods</title>
 <sec><title>Mice &amp; cells</title>
 <p>Cancer<xref ref-type="bibr" rid="B1"><sup>1</sup></xref><sup>,</sup><xref ref-type="bibr"
 rid="B2"><sup>2</sup></xref> and gliomas<sup><xref ref-type="bibr" rid="B3">3</xref>&#8211;<xref
 ref-type="bibr" rid="B5">5</xref></sup> [<xref ref-type="bibr" rid="B6">6</xref>] need Ca<sup>2+</sup>,
 CO<sub>2</sub>, Cl<sup>-</sup> and <inline-formula><alternatives><mml:math><mml:mi>&#946;</mml:mi>
 </mml:math><tex-math>\\documentclass{x}</tex-math></alternatives></inline-formula>-cells (see <xref
 ref-type="fig" rid="F1">Fig. 1</xref>).<fig id="F1"><label>Figure 1</label><caption><title>Eyes.</title>
 <p>Left: iris. <bold>Right</bold>: none.</p></caption><alt-text>eyes</alt-text>
 <graphic xlink:href="f1"/></fig> It is<disp-formula id="E1"><mml:math><mml:mi>k</mml:mi></mml:math>
 </disp-formula>per day, of<list list-type="order"><list-item><label>a</label><p>one
 retina</p></list-item><list-item><p>two</p></list-item></list></p></sec>
 <p>Back in methods.<!-- a comment --></p>
</sec>
<sec><title>Results</title>
 <table-wrap id="T1"><label>Table 1</label><caption><p>Genes of the eye</p></caption>
 <alternatives><graphic xlink:href="t1"/><table><thead><tr><th>Gene</th><th>Part</th></tr></thead>
 <tbody><tr><td><italic>PAX6</italic><xref ref-type="table-fn" rid="n"><sup>a</sup></xref></td>
 <td>iris<break/>lens</td></tr><tr><td/><td/></tr></tbody></table></alternatives>
 <table-wrap-foot><fn id="n"><label>a</label><p>In mice.</p></fn></table-wrap-foot></table-wrap>
 <boxed-text><sec><title>Box</title><p>Inside.</p></sec></boxed-text>
</sec>
</body>
<back><ack><p>We thank Ann.</p></ack>
<glossary><title>Abbreviations</title><def-list><def-item><term>AN</term><def><p>aniridia</p></def></def-item>
</def-list></glossary>
<app-group><app><title>Appendix</title><p>More eyes.</p></app></app-group>
<ref-list><title>References</title><ref id="B1"><mixed-citation>Doe J. Cancer.</mixed-citation></ref>
</ref-list></back>
<sub-article article-type="reviewer-report"><front-stub><title-group><article-title>Review</article-title>
</title-group></front-stub><body><p>Reject.</p></body></sub-article>
</article>
"""
CELLS = "Cancer and gliomas [6] need Ca2+, CO2, Cl- and β-cells (see Fig. 1). It is per day, of"
PASSAGES = [
    ("title", "", "Retinal Pax6 in 13C mice"),
    ("heading", "Summary", "Summary"),
    ("heading", "Summary > Background", "Background"),
    ("abstract", "Summary > Background", "Aniridia (AN) is rare."),
    ("heading", "Summary > Results", "Results"),
    ("abstract", "Summary > Results", "It is not."),
    ("heading", "", "Keywords"),
    ("keyword", "", "aniridia"),
    ("keyword", "", "eye"),
    ("paragraph", "", "No section here."),
    ("heading", "Methods", "Methods"),
    ("heading", "Methods > Mice & cells", "Mice & cells"),
    ("paragraph", "Methods > Mice & cells", CELLS),
    ("caption", "Methods > Mice & cells", "Eyes."),
    ("caption", "Methods > Mice & cells", "Left: iris. Right: none."),
    ("paragraph", "Methods > Mice & cells", "one retina"),
    ("paragraph", "Methods > Mice & cells", "two"),
    ("paragraph", "Methods", "Back in methods."),
    ("heading", "Results", "Results"),
    ("caption", "Results", "Genes of the eye"),
    ("table", "Results", "| Gene | Part |\n| PAX6 | iris lens |"),
    ("footnote", "Results", "In mice."),
    ("heading", "Results > Box", "Box"),
    ("paragraph", "Results > Box", "Inside."),
    ("paragraph", "Acknowledgements", "We thank Ann."),
    ("heading", "Abbreviations", "Abbreviations"),
    ("paragraph", "Abbreviations", "AN: aniridia"),
    ("heading", "Appendix", "Appendix"),
    ("paragraph", "Appendix", "More eyes."),
]
OAI = '<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><request/><ListRecords><record><metadata>'


def documents(path: Path) -> list[Document]:
    return [raw.document() for raw in open_documents(str(path))]


def passages(document: Document) -> list[tuple[str, str, str]]:
    text = document.text
    found = ((p.infons, text[p.start : p.end]) for p in document.passages)
    return [(infons["type"], infons.get("section", ""), own) for infons, own in found]


def test_an_article_has_its_sections(tmp_path: Path) -> None:
    path = write_text(tmp_path / "PMC7654321.nxml.gz", f"{HEAD}{ARTICLE}")
    [document] = documents(path)
    assert passages(document) == PASSAGES
    assert document.text == "\n\n".join(text for *_, text in PASSAGES)
    assert (document.id, document.mentions) == ("PMC7654321", None)
    assert document.infons == {"pmc": "PMC7654321", "pmid": "12345", "doi": "10.1/x"}
    [raw] = open_documents(str(path))
    doc = raw.doc(NLP, None)
    assert doc.text == document.text and len(doc.user_data["passages"]) == len(PASSAGES)


OAI_END = "</metadata></record></ListRecords></OAI-PMH>"
JATS = ' xmlns="https://jats.nlm.nih.gov/1.3/"'


@pytest.mark.parametrize(
    "head, tail, namespace",
    [("<pmc-articleset>", "</pmc-articleset>", ""), (OAI, OAI_END, JATS)],
)
def test_answers_of_the_servers_have_several_articles(tmp_path, head, tail, namespace) -> None:
    first = ARTICLE.replace("<article ", f"<article{namespace} ")
    second = f"<article{namespace}><front><article-meta/></front><body><p>Two.</p></body></article>"
    path = write_text(
        tmp_path / "articles.xml", f"<?xml version='1.0'?>{head}{first}{second}{tail}"
    )
    one, two = documents(path)
    assert passages(one) == PASSAGES
    assert (two.id, two.text) == (None, "Two.")


@pytest.mark.parametrize(
    "text, message",
    [
        ("<article><body/><body/></article>", "two elements 'body'; fetch it again"),
        ('<!DOCTYPE a [<!ENTITY b SYSTEM "c">]><article>&b;</article>', "bad XML"),
        ("<article><sub-article/></article>", "no document in it; give a BioC collection, a file"),
        ("<article><body><p>One", "bad XML"),
    ],
)
def test_broken_articles_are_refused(tmp_path, text, message) -> None:
    (tmp_path / "a.nxml").write_text(text)
    with pytest.raises(PelError, match=message):
        documents(tmp_path / "a.nxml")
