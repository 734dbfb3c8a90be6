"""OMOP and FHIR: what each mention becomes, checked by their own definitions."""

import csv
from pathlib import Path

import duckdb
import pytest
from fhir.resources.R4B.bundle import Bundle
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span

from spacy_pel.corpora.doc_conversion import write_attributes
from spacy_pel.corpora.formats.fhir import kind_of
from spacy_pel.corpora.formats.lookup import format_named
from spacy_pel.corpora.formats.omop import COLUMNS
from spacy_pel.corpora.vocabularies import coding
from spacy_pel.errors import PelError
from spacy_pel.kb.records.entity import vocabulary_of

from ...conftest import records
from .examples import KEY, QUICK, docs, linked, read, written

TEXT = 'No fever,\n"MS" and aspirin'
CODES = {"OMOP": ["437663"], "ICD10CM": ["R50.9"]}
if not Span.has_extension("negex"):  # what negspacy adds
    Span.set_extension("negex", default=False)


@pytest.fixture
def doc() -> Doc:
    doc = linked(TEXT, (3, 8, "DISEASE"), (11, 13), (19, 26, "Chemical"), id="n,1", codes=CODES)
    doc.spans[KEY][0]._.negex = True
    doc.spans[KEY][0]._.kb_probability = 0.875
    write_attributes(doc, KEY, ["negex"])
    return doc


def test_rows_of_omop(tmp_path: Path, doc: Doc) -> None:
    path = written([doc, linked("RA", (0, 2))], tmp_path / "a.note_nlp.csv", "omop")
    with path.open(newline="", encoding="utf8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS and len(path.read_text().splitlines()) == 5
    expected = {
        "note_nlp_id": ["1", "2", "3", "4"],
        "note_id": ["n,1", "n,1", "n,1", "2"],
        "offset": ["3", "11", "19", "0"],
        "lexical_variant": ["fever", "MS", "aspirin", "RA"],
        "note_nlp_concept_id": ["437663", "437663", "0", "0"],
        "term_exists": ["N", "Y", "Y", ""],
        "nlp_date": [""] * 4,
    }
    assert {column: [row[column] for row in rows] for column in expected} == expected
    assert rows[0]["snippet"] == 'No fever, "MS" and aspirin'
    assert rows[0]["term_modifiers"] == "id=E0,probability=0.875,negex=true"
    assert rows[3]["term_modifiers"] == "id=E0"
    with pytest.raises(PelError, match="omop is an output format only; give a file"):
        read(path)


def test_resources_of_fhir(tmp_path: Path, doc: Doc) -> None:
    (line,) = written([doc], tmp_path / "a.fhir.ndjson", "fhir").read_bytes().splitlines()
    bundle = Bundle.model_validate_json(line)
    assert bundle.identifier.value == "n,1"
    fever, ms, aspirin = (entry.resource for entry in bundle.entry)
    assert fever.get_resource_type() == ms.get_resource_type() == "Condition"
    assert (fever.code.text, ms.code.text) == ("fever", "MS")  # MS is one by its semantic type
    systems = {coding.system: coding.code for coding in fever.code.coding}
    assert systems["http://hl7.org/fhir/sid/icd-10-cm"] == "R50.9"
    assert [c.verificationStatus.coding[0].code for c in (fever, ms)] == ["refuted", "unconfirmed"]
    assert aspirin.get_resource_type() == "MedicationStatement"
    assert (aspirin.status, aspirin.medicationCodeableConcept.coding) == ("unknown", None)  # NIL
    assert len({entry.fullUrl for entry in bundle.entry}) == 3
    assert kind_of("Gene", ["Gene or Genome"]) is None
    assert kind_of("CHEMICAL", ["Disease or Syndrome"]) == "MedicationStatement"


@QUICK
@given(made=st.lists(docs(), min_size=1, max_size=3))
def test_every_bundle_is_valid(tmp_path: Path, made: list[Doc]) -> None:
    lines = written(made, tmp_path / "a.ndjson", "fhir").read_bytes().splitlines()
    assert len(lines) == len(made)
    for line, doc in zip(lines, made):
        entries = Bundle.model_validate_json(line).entry or []
        # A mention of control characters alone has no text.
        told = [s for s in doc.spans[KEY] if any(map(str.isprintable, s.text.replace(" ", "\0")))]
        assert len(entries) == sum(kind_of(s.label_, s._.kb_types) is not None for s in told)


@pytest.mark.parametrize(
    "id, vocabulary, system, code",
    [
        ("D009103", "MESH", "https://www.nlm.nih.gov/mesh", "D009103"),
        ("C0026769", "UMLS", "http://terminology.hl7.org/CodeSystem/umls", "C0026769"),
        ("ICD10CM:G35", "ICD10CM", "http://hl7.org/fhir/sid/icd-10-cm", "G35"),
        ("HP:0001250", "HP", "http://human-phenotype-ontology.org", "HP:0001250"),
        ("24700007", None, None, "24700007"),  # of what, no form tells
    ],
)
def test_whose_an_id_is(id: str, vocabulary: str | None, system: str | None, code: str) -> None:
    assert vocabulary_of(id)[0] == vocabulary
    found = coding(*vocabulary_of(id))
    assert (found.get("system"), found["code"]) == (system, code)


def test_attributes_in_each_format(tmp_path: Path, doc: Doc) -> None:
    (record,) = records(written([doc], tmp_path / "a.jsonl", "jsonl"))
    values = [True, False, False]
    assert [m["attributes"] for m in record["mentions"]] == [{"negex": v} for v in values]
    for name in ("csv", "parquet", "bioc"):
        output = format_named(name).output_with((), ("negex",))
        output.write_part([(1, doc)], KEY, tmp_path / "part")
        output.join([tmp_path / "part"], tmp_path / name)
    with (tmp_path / "csv").open(newline="", encoding="utf8") as file:
        assert [row["negex"] for row in csv.DictReader(file)] == ["true", "false", "false"]
    found = duckdb.sql(f"SELECT negex FROM read_parquet('{tmp_path / 'parquet'}')").fetchall()
    assert found == [(value,) for value in values]
    assert (tmp_path / "bioc").read_text().count('<infon key="negex">true</infon>') == 1
    for name in ("csv", "parquet"):
        with pytest.raises(PelError, match="two columns would be named label; write JSONL"):
            format_named(name).output_with((), ("label",))
