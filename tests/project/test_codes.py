"""The codes of other vocabularies that the records of MeSH get."""

from pathlib import Path

import pytest
from codes import main
from prepare import write_entities

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, open_source

from .downloads import write_text

DISEASES = [
    ("D1", "Gout", ("Podagra",)),
    ("D2", "Diabetes, Type 2", ("Type 2 Diabetes",)),
    ("D3", "Vision Disorders", ("Day Blindness",)),
    ("D4", "Breast Neoplasms", ("Breast Cancer", "Breast Carcinoma")),
    ("D5", "Stroke", ()),
    ("D6", "Sarcoma", ("Giant sarcoma",)),
    ("D7", "Headaches", ("Headache",)),
    ("D8", "Giant Sarcoma", ()),
]
MONDO = """
[Term]
id: MONDO:1
name: gout disease
xref: MESH:D1
xref: UMLS:C0000001
xref: SCTID:11

[Term]
id: MONDO:2
name: type 2 diabetes
xref: UMLS:C0000002
xref: OMIM:125853

[Term]
id: MONDO:3
name: day blindness
xref: UMLS:C0000003

[Term]
id: MONDO:4
name: breast cancer
xref: MESH:D4
xref: ICD10CM:C50

[Term]
id: MONDO:5
name: breast carcinoma
xref: MESH:D4
xref: ICD10CM:C50.1
is_a: MONDO:4

[Term]
id: MONDO:6
name: giant sarcoma
xref: UMLS:C0000006

[Term]
id: MONDO:7
name: stroke
xref: Orphanet:7
xref: UMLS:C0000007

[Term]
id: MONDO:8
name: stroke of the eye
xref: UMLS:C0000007
is_a: MONDO:7

[Term]
id: MONDO:9
name: rare fever
synonym: "headache" BROAD []
xref: Orphanet:7
"""
DOID = """
[Term]
id: DOID:1
name: gout
xref: MESH:D1
xref: UMLS_CUI:C9999999
xref: SNOMEDCT_US_2023_03_01:99
xref: ICD10CM:M10
"""
ICD = """<ICD10CM.tabular><chapter><section><diag><name>R51</name><desc>Headache</desc>
<diag><name>R51.9</name><desc>Headache, unspecified</desc></diag></diag>
<diag><name>I63.9</name><desc>Cerebral infarction, unspecified</desc>
<inclusionTerm><note>Stroke NOS</note></inclusionTerm></diag>
<diag><name>Z1</name><desc>Sarcoma</desc></diag>
<diag><name>M11</name><desc>Podagra in diseases classified elsewhere</desc></diag>
<diag><name>H53.11</name><desc>Day blindness</desc></diag></section></chapter></ICD10CM.tabular>"""
CHEBI = """
[Term]
id: CHEBI:1
name: paracetamol
xref: CAS:103-90-2
"""


def codes_of(folder: Path, **files: str) -> dict[str, tuple[str, ...]]:
    diseases = [Entity(*record, types=("Diseases",)) for record in DISEASES]
    drug = Entity("C1", "Acetaminophen", ("Paracetamol",), ("Chemicals and Drugs",))
    write_entities(folder / "in.jsonl.gz", [*diseases, drug._replace(xrefs=("EFO:1", "PUBCHEM:2"))])
    for name, text in files.items():
        write_text(folder / name.replace("_", "."), text)
    main(
        folder / "in.jsonl.gz",
        folder / "out.jsonl.gz",
        [folder / n.replace("_", ".") for n in files],
    )
    return {e.concept_id: e.xrefs for e in open_source(folder / "out.jsonl.gz").entities}


def test_records_get_the_codes_of_the_terms_that_mean_the_same(tmp_path: Path) -> None:
    codes = codes_of(tmp_path, icd_xml=ICD, mondo_obo=MONDO, doid_obo=DOID, chebi_obo=CHEBI)
    assert codes == {
        # By reference. The first ontology with a code of a vocabulary gives it.
        "D1": ("MONDO:1", "UMLS:C0000001", "SNOMEDCT_US:11", "DOID:1", "ICD10CM:M10"),
        "D2": ("MONDO:2", "UMLS:C0000002", "OMIM:125853"),  # by name
        "D3": (),  # the only name in common is a narrower one
        "D4": ("MONDO:4", "ICD10CM:C50"),  # of two terms, the one above the other
        # A code of several terms is that of the term whose kind the other is: not Orphanet:7.
        "D5": ("ICD10CM:I63.9", "MONDO:7", "UMLS:C0000007"),
        "D6": (),
        "D7": ("ICD10CM:R51",),  # the category, not its unspecified kind
        "D8": (),  # two records have the name
        "C1": ("PUBCHEM:2", "CHEBI:1", "CAS:103-90-2"),
    }


def test_only_equivalents_of_mondo_count_if_it_names_them(tmp_path: Path) -> None:
    related = '{source="DOID:1"}'
    marked = MONDO.replace("SCTID:11", f"SCTID:11 {related}").replace(
        "UMLS:C0000001", 'UMLS:C0000001 {source="MONDO:equivalentTo"}'
    )
    marked = marked.replace("MESH:D1\n", 'MESH:D1 {source="MONDO:equivalentTo", source="DOID:1"}\n')
    assert codes_of(tmp_path, mondo_obo=marked)["D1"] == ("MONDO:1", "UMLS:C0000001")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PelError, match="icd.xml: bad XML"):
        codes_of(tmp_path, icd_xml=ICD[:-9])
