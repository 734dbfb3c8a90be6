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
    ("D9", "Anemia", ("Low Blood",)),
    ("D10", "Fever", ()),
    ("D11", "Pyrexia", ()),
    ("D12", "Blue Skin", ("Azure Skin", "Sky Skin")),
]


def term(id: str, name: str, xrefs: str, *clauses: str) -> str:
    lines = ["[Term]", f"id: {id}", f"name: {name}", *(f"xref: {xref}" for xref in xrefs.split())]
    return "\n".join([*lines, *clauses]) + "\n\n"


MONDO = (
    term("MONDO:1", "gout disease", "MESH:D1 UMLS:C0000001 SCTID:11")
    + term("MONDO:2", "type 2 diabetes", "UMLS:C0000002 OMIM:125853")
    + term("MONDO:3", "day blindness", "UMLS:C0000003")
    + term("MONDO:4", "breast cancer", "MESH:D4 ICD10CM:C50")
    + term("MONDO:5", "breast carcinoma", "MESH:D4 ICD10CM:C50.1", "is_a: MONDO:4")
    + term("MONDO:6", "giant sarcoma", "UMLS:C0000006")
    + term("MONDO:7", "stroke", "Orphanet:7 UMLS:C0000007")
    + term("MONDO:8", "stroke of the eye", "UMLS:C0000007", "is_a: MONDO:7")
    + term("MONDO:9", "rare fever", "Orphanet:7", 'synonym: "headache" BROAD []')
    + term("MONDO:10", "anemia", "MESH:D9 UMLS:C0000010")
    + term("MONDO:11", "low blood", "MESH:D9 UMLS:C0000011")
    + term("MONDO:12", "fever", "MESH:D11 UMLS:C0000012")
    + term("MONDO:13", "tumor", "MESH:D6 MESH:D8 UMLS:C0000013")
    + term(
        *("MONDO:14", "cold skin", "UMLS:C0000014"),
        *('synonym: "azure skin" EXACT []', 'synonym: "sky skin" EXACT []'),
    )
)
DOID = term("DOID:1", "gout", "MESH:D1 UMLS_CUI:C9999999 SNOMEDCT_US_2023_03_01:99 ICD10CM:M10")
CHEBI = term("CHEBI:1", "paracetamol", "CAS:103-90-2")
ICD = """<ICD10CM.tabular><chapter><section><diag><name>R51</name><desc>Headache</desc>
<diag><name>R51.9</name><desc>Headache, unspecified</desc></diag></diag>
<diag><name>I63.9</name><desc>Cerebral infarction, unspecified</desc>
<inclusionTerm><note>Stroke NOS</note></inclusionTerm></diag>
<diag><name>Z1</name><desc>Sarcoma</desc></diag>
<diag><name>M11</name><desc>Podagra in diseases classified elsewhere</desc></diag>
<diag><name>H53.11</name><desc>Day blindness</desc></diag></section></chapter></ICD10CM.tabular>"""


def codes_of(folder: Path, **files: str) -> dict[str, tuple[str, ...]]:
    diseases = [Entity(*record, types=("Diseases",)) for record in DISEASES]
    drugs = [
        Entity("C1", "Acetaminophen", ("Paracetamol",), xrefs=("EFO:1", "PUBCHEM:2")),
        Entity("C2", "Type 2 Diabetes"),
    ]
    drugs = [drug._replace(types=("Chemicals and Drugs",)) for drug in drugs]
    write_entities(folder / "in.jsonl.gz", [*diseases, *drugs])
    paths = [write_text(folder / name.replace("_", "."), text) for name, text in files.items()]
    main(folder / "in.jsonl.gz", folder / "out.jsonl.gz", paths)
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
        "D8": (),  # two records have the name, or one term refers to both
        "D9": ("MONDO:10", "UMLS:C0000010"),  # of two terms, the one with the preferred name
        "D10": (),  # the term of its name refers to another record
        "D11": ("MONDO:12", "UMLS:C0000012"),
        "D12": (),  # it shares two names, but not the preferred name of the term
        "C1": ("PUBCHEM:2", "CHEBI:1", "CAS:103-90-2"),
        "C2": (),  # no disease
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
