from __future__ import annotations

import gzip
import logging
import sqlite3
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import rrf


def conso(cui: str, name: str, *, lat="ENG", suppress="N", preferred=False) -> str:
    ts, stt, ispref = ("P", "PF", "Y") if preferred else ("S", "VO", "N")
    return f"{cui}|{lat}|{ts}|L1|{stt}|S1|{ispref}|A1||||MSH|MH|D1|{name}|0|{suppress}|256|"


def sty(cui: str, name: str) -> str:
    return f"{cui}|T047|B2.2.1.2.1|{name}|AT1|256|"


def definition(cui: str, source: str, text: str, suppress="N") -> str:
    return f"{cui}|A1|AT1||{source}|{text}|{suppress}|256|"


def write(folder: Path, name: str, lines: list[str], gz: bool = False) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()
    if gz:
        (folder / f"{name}.gz").write_bytes(gzip.compress(text))
    else:
        (folder / name).write_bytes(text)


@pytest.mark.parametrize("gz", [False, True])
def test_follows_the_recipe(tmp_path: Path, caplog: pytest.LogCaptureFixture, gz: bool) -> None:
    names = [
        conso("C2", "Rash"),  # none preferred: the first English one
        conso("C1", "MS"),
        conso("C3", "Sclérose", lat="FRE"),
        conso("C1", "Esclerosis", lat="SPA", preferred=True),
        conso("C1", "Multiple sclerosis", preferred=True),
        conso("C1", "Old name", suppress="O", preferred=True),
        conso("C1", "Sclerosis, multiple", preferred=True),
        conso("C2", "Exanthema"),
        conso("C1", "MS"),
        conso("C4", "Withdrawn", suppress="E"),
    ]
    definitions = [
        definition("C1", "CSP", "From another source."),
        definition("C1", "NCI", "Suppressed.", suppress="O"),
        definition("C1", "MSH", "From a preferred source."),
        definition("C1", "NCI", "From a later preferred source."),
        definition("C2", "CSP", "First."),
        definition("C2", "CSP", "Second."),
        definition("C3", "MSH", "Of a CUI without an English name."),
    ]
    write(tmp_path, "MRCONSO.RRF", names, gz)
    write(tmp_path, "MRSTY.RRF", [sty("C1", "Finding"), sty("C1", "Disease or Syndrome")], gz)
    write(tmp_path, "MRDEF.RRF", definitions, gz)
    with caplog.at_level(logging.WARNING):
        entities = list(rrf.read_rrf(tmp_path))
    assert entities == [
        Entity(
            "C1",
            "Multiple sclerosis",
            ("Sclerosis, multiple", "MS"),
            ("Disease or Syndrome", "Finding"),
            "From a preferred source.",
        ),
        Entity("C2", "Rash", ("Exanthema",), (), "First."),
    ]
    assert "skipped 2 CUIs" in caplog.text


def test_types_and_definitions_are_optional(tmp_path: Path) -> None:
    write(tmp_path, "MRCONSO.RRF", [conso("C1", "A name\u2028with a separator\r inside")])
    assert list(rrf.read_rrf(tmp_path)) == [Entity("C1", "A name\u2028with a separator\r inside")]


def test_missing_names(tmp_path: Path) -> None:
    write(tmp_path, "MRSTY.RRF", [sty("C1", "Finding")])
    with pytest.raises(PelError, match=r"holds no MRCONSO\.RRF"):
        list(rrf.read_rrf(tmp_path))


GOOD = {
    "MRCONSO.RRF": conso("C1", "Fever"),
    "MRSTY.RRF": sty("C1", "Finding"),
    "MRDEF.RRF": definition("C1", "MSH", "Hot."),
}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize(
    "damage",
    [
        lambda row: row.split("|", 1)[1],  # a missing column
        lambda row: row[:-1],  # cut off before the last bar
        lambda row: row + "256",  # one value too many
        lambda row: row[:7],
        lambda row: "",
    ],
)
def test_a_row_that_is_not_whole_is_named(tmp_path: Path, name: str, damage) -> None:
    for file, row in GOOD.items():
        write(tmp_path, file, [row, damage(row) if file == name else row])
    with pytest.raises(PelError, match=rf"{name}, line 2: expected \d+ columns") as caught:
        list(rrf.read_rrf(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name, row, column",
    [
        ("MRCONSO.RRF", conso("", "Fever"), "CUI"),
        ("MRCONSO.RRF", conso("C1", ""), "STR"),
        ("MRSTY.RRF", sty("C1", ""), "STY"),
        ("MRDEF.RRF", definition("C1", "MSH", " "), "DEF"),
    ],
)
def test_an_empty_column_is_named(tmp_path: Path, name: str, row: str, column: str) -> None:
    for file, good in GOOD.items():
        write(tmp_path, file, [row if file == name else good])
    with pytest.raises(PelError, match=rf"{name}, line 1: column {column} is empty"):
        list(rrf.read_rrf(tmp_path))


def test_no_room_to_sort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "MRCONSO.RRF", [GOOD["MRCONSO.RRF"]])

    def full(*arguments: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(rrf.sqlite3, "connect", full)
    with pytest.raises(PelError, match="disk is full.*TMPDIR"):
        list(rrf.read_rrf(tmp_path))
