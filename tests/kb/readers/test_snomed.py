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
FOLDERS = {"sct2": "Terminology", "xsct": "Terminology", "der2": "Refset"}

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


def write(folder: Path, kind: str, name: str, rows: Iterable[tuple]) -> Path:
    """A file of a snapshot with the columns of a kind."""
    below = folder / FOLDERS[name[:4]]
    below.mkdir(parents=True, exist_ok=True)
    lines = [COLUMNS[kind].split(), *rows]
    path = below / f"{name}.txt"
    text = "".join("\t".join(map(str, line)) + "\r\n" for line in lines)
    path.write_bytes(text.encode())
    return path


def row(id: str, active: int, *others: str) -> tuple:
    return (id, "20260101", active, "900000000000207008", *others)


def write_release(folder: Path) -> Path:
    snapshot = folder / "Snapshot"
    rows = (row(*c, "x") for c in CONCEPTS.items())
    write(snapshot, "Concept", "sct2_Concept_Snapshot_INT_20260101", rows)
    descriptions = (row(id, on, *rest, "x") for id, on, *rest in DESCRIPTIONS)
    write(snapshot, "Description", "sct2_Description_Snapshot-en_INT_20260101", descriptions)
    spanish = row("99", 1, "24700007", "es", SYNONYM, "Esclerosis", "x")
    write(snapshot, "Description", "sct2_Description_Snapshot-es_INT_20260101", [spanish])
    text = row("20", 1, "24700007", "en", "900000000000550004", "A disease of myelin.", "x")
    write(snapshot, "TextDefinition", "sct2_TextDefinition_Snapshot-en_INT_20260101", [text])
    relations = [("24700007", "6118003", IS_A, 1), ("6118003", "64572001", IS_A, 1)]
    relations += [("24700007", "64572001", IS_A, 0), ("24700007", "111", FINDING_SITE, 1)]
    rows = (row(f"3{a}{b}", on, a, b, "0", type, "x", "x") for a, b, type, on in relations)
    write(snapshot, "Relationship", "sct2_Relationship_Snapshot_INT_20260101", rows)
    rows = (row(f"u{n}", 1, refset, of, how) for n, (of, refset, how) in enumerate(LANGUAGE))
    write(snapshot, "cRefset_Language", "der2_cRefset_LanguageSnapshot-en_INT_20260101", rows)
    replaced = [("111", "24700007", SAME_AS), ("113", "24700007", MAY_BE)]
    replaced += [("112", "24700007", SAME_AS), ("112", "6118003", SAME_AS)]  # which is not said
    rows = (row(f"u{n}", 1, x, old, new) for n, (old, new, x) in enumerate(replaced))
    write(snapshot, "cRefset_Association", "der2_cRefset_AssociationSnapshot_INT_20260101", rows)
    codes = [(ICD10CM, 2, "G36.9"), (ICD10CM, 1, "G35"), (ICD10, 1, "G35"), ("7", 1, "X")]
    codes += [(ICD10, 3, "")]
    rule = ("1", "IFA 1", "ALWAYS")
    rows = (
        row(f"u{refset}{group}", 1, refset, "24700007", group, *rule, target, "x", "x")
        for refset, group, target in codes
    )
    name = "der2_iisssccRefset_ExtendedMapSnapshot_INT_20260101"
    write(snapshot, "iisssccRefset_ExtendedMap", name, rows)
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
    with pytest.raises(PelError, match="holds no sct2_Description_.*; unpack the whole"):
        open_source(tmp_path)


def test_faults(tmp_path: Path) -> None:
    snapshot = write_release(tmp_path)
    name = "sct2_Relationship_Snapshot_INT_20260101"
    file = write(snapshot, "Relationship", name, [("1", "20260101", 1)])
    with pytest.raises(PelError, match="Relationship.*Line: 2 .* Columns: 10 Found: 3"):
        list(open_source(tmp_path).entities)
    file.write_text("id\tterm\n")
    with pytest.raises(PelError, match="Relationship.*, line 1: does not name the columns id eff"):
        list(open_source(tmp_path).entities)
    with pytest.raises(PelError, match="holds no sct2_Concept_"):
        open_source(tmp_path / "Snapshot" / "Refset", format="snomed")


def component(id: str, date: str, active: int, *others: str) -> tuple:
    return (id, date, active, "83821000000107", *others)


def test_the_modules_of_the_uk_are_read_together(tmp_path: Path, caplog) -> None:
    """The names of files are those of the clinical edition of the NHS; ids and texts are our own."""
    international = write_release(tmp_path / "SnomedCT_InternationalRF2_PRODUCTION_20260101")
    clinical = tmp_path / "SnomedCT_UKClinicalRF2_PRODUCTION_20240410T000001Z" / "Snapshot"
    edition = tmp_path / "SnomedCT_UKEditionRF2_PRODUCTION_20240410T000001Z" / "Snapshot"
    end = "GB1000000_20240410"
    concepts = [component("900", "20240410", 1, "x"), component("6118003", "20260401", 0, "x")]
    write(clinical, "Concept", f"sct2_Concept_UKCLSnapshot_{end}", concepts)
    older = [component("901", "20231011", 1, "x")]  # of the release before, left in the folder
    write(clinical, "Concept", "sct2_Concept_UKCLSnapshot_GB1000000_20231011", older)
    full = [component("902", "20240410", 1, "x")]
    write(clinical.parent / "Full", "Concept", f"sct2_Concept_UKCLFull_{end}", full)
    write(edition, "Concept", f"sct2_Concept_UKEDSnapshot_{end}", [])
    names = [("90", FULL, "Seen by team (procedure)"), ("91", SYNONYM, "Team review")]
    names += [("92", SYNONYM, "MDT review")]
    rows = [component(id, "20240410", 1, "900", "en", type, term, "x") for id, type, term in names]
    write(clinical, "Description", f"sct2_Description_UKCLSnapshot-en_{end}", rows)
    text = component("93", "20240410", 1, "900", "en", "900000000000550004", "A meeting.", "x")
    write(clinical, "TextDefinition", f"sct2_TextDefinition_UKCLSnapshot-en_{end}", [text])
    isa = component("94", "20240410", 1, "900", "64572001", "0", IS_A, "x", "x")
    write(edition, "Relationship", f"sct2_Relationship_UKEDSnapshot_{end}", [isa])
    preferred = component("95", "20240410", 1, "999001261000000100", "91", PREFERRED)
    write(clinical, "cRefset_Language", f"der2_cRefset_LanguageUKCLSnapshot-en_{end}", [preferred])
    gone = component("96", "20240410", 1, SAME_AS, "901", "900")
    name = f"der2_cRefset_AssociationUKCLSnapshot_{end}"
    write(clinical, "cRefset_Association", name, [gone])
    codes = enumerate(("J459", "G35X", "I330D", "M45X6", "#NC", "J46XA"))
    name = f"der2_iisssciRefset_ExtendedMapUKCLSnapshot_{end}"
    rows = [
        component(f"m{n}", "20240410", 1, refset, "900", n, "1", "", "", code, "x", "0")
        for refset, rows in (("999002271000000101", codes), ("1126441000000105", [(7, "X998")]))
        for n, code in rows
    ]
    write(clinical, "iisssciRefset_ExtendedMap", name, rows)

    source = open_source(tmp_path)
    team = Entity(
        *("900", "Team review", ("Seen by team", "MDT review"), ("procedure",), "A meeting."),
        parents=("64572001",),
        retired_ids=("901",),
        xrefs=("ICD10:J45.9", "ICD10:G35", "ICD10:I33.0", "ICD10:M45.X6", "ICD10:J46"),
        sources=("SNOMEDCT",),
    )
    # 6118003 is inactive since a later date than the international release has.
    assert list(source.entities) == [MS, OTHERS[1], team]
    assert source.version == "20260101"
    assert "left out 1 descriptions that are not English (es)" in caplog.text

    for file in international.rglob("*.txt"):
        file.unlink()
    caplog.clear()
    assert list(open_source(clinical.parent.parent).entities) == [team]
    assert "no Concept file" not in caplog.text  # its own concepts are all there


@pytest.mark.parametrize(
    "kind, module, language, end",
    [
        ("sct2", "MONO", "en", "GB_20240410"),
        ("sct2", "", "en-AU", "AU1000036_20260131"),
        ("sct2", "SpanishExtension", "es", "INT_20260430"),
        ("xsct2", "", "nl", "NL1000146_20260331"),
    ],
)
def test_names_of_editions_and_extensions(
    tmp_path: Path, caplog, kind: str, module: str, language: str, end: str
) -> None:
    write(tmp_path, "Concept", f"{kind}_Concept_{module}Snapshot_{end}", [row("1", 1, "x")])
    rest = (language[:2], FULL, "Gout (disorder)", "x")
    rows = [row("3", 1, "1", *rest), row("4", 1, "2", *rest)]
    write(tmp_path, "Description", f"{kind}_Description_{module}Snapshot-{language}_{end}", rows)
    assert detected_format(tmp_path) == "snomed"
    source = open_source(tmp_path)
    assert list(source.entities) == [disorder("1", "Gout")]
    assert source.version == end[-8:]
    assert "left out 1 concepts that have descriptions, but are in no Concept file" in caplog.text
