from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import ReadOptions, open_source
from spacy_pel.kb.readers.mesh_ascii import read_mesh_ascii

FULL = """*NEWRECORD
RECTYPE = D
MH = Flu
AQ = BL CF
PRINT ENTRY = Grippe|T047|T191|NON|EQV|UNK (19XX)|741111|abbcdef
ENTRY = Influenza|T047
MN = C01.5.2
MN = F03.1
MS = A virus.
UI = D2

*NEWRECORD
RECTYPE = D
MH = Infections
MN = C01.5
UI = D1
"""
SUPPLEMENT = """*NEWRECORD
RECTYPE = C
NM = Rare flu
SY = Odd flu|NLM|T047
HM = *Flu/genetics
HM = Unknown heading
NO = Rare.
UI = C7
"""
REDUCED = """*NEWRECORD
MH = Flu
MS = A virus.
ENTRY = Grippe
ENTRY = Influenza
UI = D2

*NEWRECORD
MH = Infections
MS =
UI = D1
"""
TREES = "Flu;C01.5.2\nFlu;F03.1\nInfections;C01.5\n"
TYPES = ("Diseases", "Psychiatry and Psychology")
FLU = Entity(
    "D2", "Flu", ("Influenza", "Grippe"), TYPES, "A virus.", parents=("D1",), sources=("MSH",)
)
INFECTIONS = Entity("D1", "Infections", (), ("Diseases",), sources=("MSH",))
RARE = Entity(
    "C7", "Rare flu", ("Odd flu",), TYPES, "Rare.", parents=("D2",), sources=("MSH",)
)  # fmt: skip


def test_reads_the_full_file(tmp_path: Path) -> None:
    (tmp_path / "d2014.bin").write_text(FULL)
    source = open_source(tmp_path / "d2014.bin")
    assert list(source.entities) == [FLU, INFECTIONS]
    assert source.version == "2014"


def test_reads_a_reduced_file_with_its_trees(tmp_path: Path) -> None:
    (tmp_path / "mesh_d2014.bin").write_text(REDUCED)
    (tmp_path / "mesh_mtrees2014.bin").write_text(TREES)
    (tmp_path / "mesh_mtrees2015.bin").write_text("Flu;Z01\n")
    flu = FLU._replace(aliases=("Grippe", "Influenza"))
    assert list(open_source(tmp_path / "mesh_d2014.bin").entities) == [flu, INFECTIONS]


def test_reads_a_folder_with_supplementary_records(tmp_path: Path) -> None:
    (tmp_path / "c2014.bin").write_text(SUPPLEMENT)
    (tmp_path / "d2014.bin").write_text(FULL)
    assert list(open_source(tmp_path).entities) == [FLU, INFECTIONS, RARE]
    [alone] = open_source(tmp_path / "c2014.bin").entities
    assert alone == RARE._replace(types=(), parents=())


@pytest.mark.parametrize(
    "text, line",
    [
        ("MH = before\n", 1),
        ("*NEWRECORD\nMH = a\nno element\nUI = D1\n", 3),
        (f"{FULL}*NEWRECORD\nMH = without id\n", 17),
        (f"{FULL}*NEWRECORD\nUI = D7\n*NEWRECORD\nMH = x\nUI = D8\n", 17),
        ("*NEWRECORD\nSH = a qualifier\nUI = Q1\n", 1),
    ],
)
def test_a_bad_record_is_named(tmp_path: Path, text: str, line: int) -> None:
    (tmp_path / "d.bin").write_text(text)
    with pytest.raises(PelError, match=rf"d\.bin, line {line}: "):
        list(read_mesh_ascii(tmp_path / "d.bin", ReadOptions()).entities)


def test_bad_trees_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(PelError, match=r"holds no d20xx\.bin"):
        read_mesh_ascii(tmp_path / "empty", ReadOptions())
    (tmp_path / "d2014.bin").write_text(REDUCED)
    (tmp_path / "mtrees2014.bin").write_text("Flu C01\n")
    with pytest.raises(
        PelError, match=r"mtrees2014\.bin, line 1: is not of the form HEADING;TREE NUMBER"
    ):
        list(read_mesh_ascii(tmp_path / "d2014.bin", ReadOptions()).entities)
