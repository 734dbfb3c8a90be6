from __future__ import annotations

import gzip
from pathlib import Path

import duckdb
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import ReadOptions, open_source
from spacy_pel.kb.readers.table import read_table

ENTITIES = [
    Entity("C1", "Fever, high", ("Pyrexia", "发烧"), ("Finding",), "Hot.", xrefs=("M:1",)),
    Entity("C2", 'A 5" tube'),
]
CSV = (
    "concept_id,canonical_name,aliases,types,definition,xrefs,score\r\n"
    'C1,"Fever, high",Pyrexia| 发烧|,Finding,Hot.,M:1,7\r\nC2,"A 5"" tube",,,,,\r\n'
)


def read(path: Path, columns: dict[str, str] = {}) -> list[Entity]:
    return list(open_source(path, options=ReadOptions(columns=columns)).entities)


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "X.CSV.GZ", "it's [a]*.csv"])
def test_reads_csv(tmp_path: Path, name: str) -> None:
    data = b"\xef\xbb\xbf" + CSV.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    (tmp_path / "it's a.csv").write_text("concept_id,canonical_name\nC3,of another file\n")
    assert read(tmp_path / name) == ENTITIES


def test_reads_parquet_with_lists(tmp_path: Path) -> None:
    duckdb.sql(
        f"COPY (SELECT 7 AS concept_id, 'x' AS canonical_name, ['a', NULL, 'b'] AS aliases, "
        f"'c|d' AS types, NULL AS definition) TO '{tmp_path / 'x.parquet'}'"
    )
    assert read(tmp_path / "x.parquet") == [Entity("7", "x", ("a", "b"), ("c", "d"))]


def test_columns_without_a_name_or_that_differ_in_case(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(",Symbol,symbol,\n0,A,a,\n1,B,b,\n")
    columns = {"Symbol": "concept_id", "symbol": "canonical_name"}
    assert read(path, columns) == [Entity("A", "a"), Entity("B", "b")]


def test_several_rows_an_entity_and_columns_of_other_names(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    rows = ["Id\tName\tDE\tFR\taliases", "2\ttwo\tzwei\tdeux\tno", "1\tone\t\t\t", "2\tII\t\t\t"]
    path.write_text("\n".join(rows))
    columns = {"Id": "concept_id", "Name": "canonical_name", "DE": "aliases", "FR": "aliases"}
    assert read(path, columns) == [
        Entity("1", "one"),
        Entity("2", "two", ("zwei", "deux", "II")),
    ]


@pytest.mark.parametrize(
    "text, columns, fault",
    [
        ("id,name\n", {}, "no column concept_id; .*--column concept_id=COLUMN .*id, name"),
        ("concept_id,name\n", {"nom": "canonical_name"}, "no column 'nom'"),
        ("concept_id,name\n", {"name": "nom"}, "no field 'nom'"),
        ("a,b,c\n", {"a": "concept_id", "b": "canonical_name", "c": "concept_id"}, "several"),
        ("concept_id,a,a\n", {}, "line 1: two columns 'a'"),
        ("concept_id,canonical_name\nC1,x\n,y\n", {}, "row 2: no id or no name"),
        ("concept_id,canonical_name\nC1, \n", {}, "row 1: no id or no name"),
        (
            "concept_id,canonical_name\nC1,x\nC\0,y\n",
            {},
            "x.csv, row 2: the id .* contains control",
        ),
        ("concept_id,canonical_name\nC1,x\nC2\n", {}, "Line: 3"),
        ("concept_id,canonical_name\nC1,x\nC2,y,z\n", {}, "Line: 3"),
        ('concept_id,canonical_name\nC1,"x\n', {}, "Line: 2"),
        (f"concept_id,canonical_name\nC1,{'x' * 3_000_000}\n", {}, "Line: 2 .*Maximum line size"),
        ("", {}, "no column concept_id"),
    ],
)
def test_a_bad_table_is_named(tmp_path: Path, text: str, columns: dict, fault: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(PelError, match=fault) as caught:
        read(tmp_path / "x.csv", columns)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "name, data",
    [
        ("x.parquet", b"PAR1 not parquet"),
        ("x.csv", b"concept_id,canonical_name\nC1,\xff\n"),
        ("x.csv.gz", gzip.compress(CSV.encode())[:-12]),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(PelError, match=name):
        list(read_table(tmp_path / name, ReadOptions()).entities)
