"""SNOMED CT: a snapshot in small, in the layout and with the columns of a release; our own texts."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import detected_format, open_source
from spacy_pel.kb.readers.snomed import COLUMNS

FULL, SYNONYM = "900000000000003001", "900000000000013009"
US, GB = "900000000000509007", "900000000000508004"
PREFERRED, ACCEPTABLE = "900000000000548007", "900000000000549004"
IS_A, FINDING_SITE = "116680003", "363698007"
SAME_AS, MAY_BE = "900000000000527005", "900000000000523009"
ICD10, ICD10CM = "447562003", "6011000124106"
FOLDERS = {"sct2": "Terminology", "der2": "Refset"}

CONCEPTS = {"24700007": 1, "6118003": 1, "64572001": 1, "111": 0, "112": 0, "113": 0}
DESCRIPTIONS = [  # id, active, concept, language, type, term
    ("9", 1, "24700007", "en", FULL, "Multiple sclerosis (disorder)"),
    ("5", 1, "24700007", "en", SYNONYM, "MS - Multiple sclerosis"),
    ("6", 1, "24700007", "en", SYNONYM, "Disseminated sclerosis"),
    ("7", 1, "24700007", "en", SYNONYM, "Multiple sclerosis"),
    ("8", 0, "24700007", "en", SYNONYM, "Withdrawn name"),
    ("10", 1, "6118003", "en", FULL, "Demyelinating disease of central nervous system (disorder)"),
    ("11", 1, "6118003", "en", SYNONYM, 'Demyelinating "CNS" disease'),
    ("12", 1, "64572001", "en", SYNONYM, "Colour of disease"),
    ("13", 1, "64572001", "en", SYNONYM, "Color of disease"),
    ("14", 1, "64572001", "en", FULL, "Disease (disorder)"),
    ("15", 1, "111", "en", FULL, "Insular sclerosis (disorder)"),
]
LANGUAGE = [("5", US, ACCEPTABLE), ("7", US, PREFERRED), ("7", GB, PREFERRED)]
LANGUAGE += [("12", GB, PREFERRED), ("13", US, PREFERRED)]


def disorder(id: str, name: str, *aliases: str, **fields: object) -> Entity:
    return Entity(id, name, aliases, ("disorder",), sources=("SNOMEDCT",), **fields)


BARE_MS = disorder(
    *("24700007", "Multiple sclerosis", "MS - Multiple sclerosis", "Disseminated sclerosis")
)
MS = BARE_MS._replace(
    definition="A disease of myelin.",
    parents=("6118003",),
    retired_ids=("111",),
    xrefs=("ICD10:G35", "ICD10CM:G35", "ICD10CM:G36.9"),
)
DEMYELINATING = "Demyelinating disease of central nervous system"
OTHERS = [
    disorder("6118003", DEMYELINATING, 'Demyelinating "CNS" disease', parents=("64572001",)),
    disorder("64572001", "Color of disease", "Colour of disease", "Disease"),
]


def write(folder: Path, kind: str, rows: Iterable[tuple], name: str = "INT") -> Path:
    """A file of a release; each row lacks what all rows have: id or place, date and module."""
    below = folder / FOLDERS[kind[:4]]
    below.mkdir(parents=True, exist_ok=True)
    lines = [COLUMNS[kind].split(), *rows]
    text = "".join("\t".join(map(str, line)) + "\r\n" for line in lines)
    path = below / f"{kind}{name}_20260101.txt"
    path.write_bytes(text.encode())
    return path


def row(id: str, active: int, *others: str) -> tuple:
    return (id, "20260101", active, "900000000000207008", *others)


def write_release(folder: Path) -> Path:
    snapshot = folder / "Snapshot"
    write(snapshot, "sct2_Concept_Snapshot", (row(*c, "x") for c in CONCEPTS.items()), "_INT")
    descriptions = (row(id, on, *rest, "x") for id, on, *rest in DESCRIPTIONS)
    write(snapshot, "sct2_Description_Snapshot", descriptions, "-en_INT")
    spanish = row("99", 1, "24700007", "es", SYNONYM, "Esclerosis", "x")
    write(snapshot, "sct2_Description_Snapshot", [spanish], "-es_INT")
    text = row("20", 1, "24700007", "en", "900000000000550004", "A disease of myelin.", "x")
    write(snapshot, "sct2_TextDefinition_Snapshot", [text], "-en_INT")
    relations = [
        ("24700007", "6118003", IS_A, 1),
        ("6118003", "64572001", IS_A, 1),
        ("24700007", "64572001", IS_A, 0),
        ("24700007", "111", FINDING_SITE, 1),
    ]
    rows = (row("30", on, a, b, "0", type, "x", "x") for a, b, type, on in relations)
    write(snapshot, "sct2_Relationship_Snapshot", rows)
    rows = (row("u", 1, refset, of, how) for of, refset, how in LANGUAGE)
    write(snapshot, "der2_cRefset_LanguageSnapshot", rows, "-en_INT")
    replaced = [("111", "24700007", SAME_AS), ("113", "24700007", MAY_BE)]
    replaced += [("112", "24700007", SAME_AS), ("112", "6118003", SAME_AS)]  # which is not said
    rows = (row("u", 1, refset, old, new) for old, new, refset in replaced)
    write(snapshot, "der2_cRefset_AssociationSnapshot", rows)
    codes = [(ICD10CM, 2, "G36.9"), (ICD10CM, 1, "G35"), (ICD10, 1, "G35"), ("7", 1, "X")]
    codes += [(ICD10, 3, "")]
    rows = (
        row("u", 1, refset, "24700007", group, "1", "IFA 1", "ALWAYS", target, "x", "x")
        for refset, group, target in codes
    )
    write(snapshot, "der2_iisssccRefset_ExtendedMapSnapshot", rows)
    return snapshot


def test_a_release(tmp_path: Path) -> None:
    folder = tmp_path / "SnomedCT_InternationalRF2_PRODUCTION"
    snapshot = write_release(folder)
    for path in (tmp_path, folder, snapshot):
        assert detected_format(path) == "snomed"
        source = open_source(path)
        assert list(source.entities) == [MS, *OTHERS]
        assert source.version == "20260101"


def test_concepts_and_descriptions_are_enough(tmp_path: Path) -> None:
    snapshot = write_release(tmp_path)
    for file in snapshot.rglob("*.txt"):
        if not file.name.startswith(("sct2_Concept", "sct2_Description")):
            file.unlink()
    first, *others = open_source(tmp_path).entities
    assert first == BARE_MS
    assert [entity.canonical_name for entity in others] == [DEMYELINATING, "Disease"]
    english, spanish = sorted(snapshot.rglob("*Description*"))
    english.unlink()
    assert [e.names for e in open_source(tmp_path).entities] == [("Esclerosis",)]
    spanish.unlink()
    with pytest.raises(PelError, match="holds no sct2_Description_Snapshot.*; unpack the whole"):
        open_source(tmp_path)


def test_faults(tmp_path: Path) -> None:
    snapshot = write_release(tmp_path)
    file = write(snapshot, "sct2_Relationship_Snapshot", [("1", "20260101", 1)])
    with pytest.raises(PelError, match="Relationship.*Line: 2 .* Columns: 10 Found: 3"):
        list(open_source(tmp_path).entities)
    file.write_text("id\tterm\n")
    with pytest.raises(PelError, match="Relationship.*, line 1: does not name the columns id eff"):
        list(open_source(tmp_path).entities)
    with pytest.raises(PelError, match="holds no sct2_Concept_Snapshot"):
        open_source(tmp_path / "Snapshot" / "Refset", format="snomed")
