"""MeSH without what MEDIC and OMIM add to it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import mesh_alone
import pytest
import typer
from sources.mesh_only import Vocabularies, folded, mesh_only

from spacy_pel.kb import Entity, open_source

from . import downloads

KNOWN = Vocabularies(
    mesh={"D1": frozenset(map(folded, ("Leukaemia", "AML-1")))},
    medic={"D1": frozenset(map(folded, ("Leukemia", "Blood cancer", "AML-1", "LEUK7")))},
)


def kept(*aliases: str, id: str = "D1", alt_ids: tuple[str, ...] = ("151430",)) -> tuple[str, ...]:
    [entity] = mesh_only([Entity(id, "Name", aliases, alt_ids=alt_ids)], KNOWN, Counter())
    return entity.aliases


def test_names_of_a_descriptor() -> None:
    assert kept("Leukemia", "AML-1") == ("Leukemia", "AML-1")  # MeSH's, in American spelling
    assert kept("Blood cancer") == ()  # of MEDIC alone
    assert kept("Leukemias") == ("Leukemias",)  # of neither: of a later year of MeSH
    assert kept("LEUK7", "LEUKEMIA, CHRONIC, Xq28") == ()  # of OMIM
    assert kept("LEUK8", alt_ids=()) == ("LEUK8",)  # without an id of OMIM MEDIC adds nothing


def test_names_of_a_supplementary_record() -> None:
    names = ("Spastic paraplegia 5B", "SPASTIC PARAPLEGIA 5B", "SPG5B", "Farber&apos;s")
    assert kept(*names, id="C5") == ("Spastic paraplegia 5B", "Farber's")
    assert kept("AZD8330", id="C5", alt_ids=("D7",)) == ("AZD8330",)


def test_ids_of_omim_stay_out() -> None:
    left_out: Counter[str] = Counter()
    entities = [
        Entity("D1", "LEUK", alt_ids=("151430", "C9"), types=("Disease", "X")),
        Entity("300323", "GOUT 3", ("HPRT",)),
    ]
    assert list(mesh_only(entities, KNOWN, left_out)) == [
        Entity("D1", "LEUK", alt_ids=("C9",), types=("Diseases", "X"))
    ]
    assert left_out == {"entities": 1, "ids": 1, "names": 2}


def test_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        mesh_alone.main(tmp_path, tmp_path / "out.jsonl.gz")
    assert "spacy project run prepare" in capsys.readouterr().out
    record = {"concept_id": "D1", "canonical_name": "Leukemia", "aliases": ["LEUK7", "AML-1"]}
    downloads.write_text(
        tmp_path / "kb/mesh.jsonl.gz", json.dumps({**record, "alt_ids": ["151430"]})
    )
    ascii = "*NEWRECORD\nMH = Leukaemia\nENTRY = AML-1\nUI = D1\n"
    downloads.write_text(tmp_path / "ontologies/mesh_ascii_d2014.bin.gz", ascii)
    medic = "D1|151430||Leukemia|LEUK7|AML-1\n"
    downloads.write_text(tmp_path / "ontologies/medic_2012.txt.gz", medic)
    mesh_alone.main(tmp_path, tmp_path / "out.jsonl.gz")
    expected = [Entity("D1", "Leukemia", ("AML-1",))]
    assert list(open_source(tmp_path / "out.jsonl.gz").entities) == expected
    assert "Left out: 1 ids, 1 names" in capsys.readouterr().out
    made = '{"concept_id": "D3", "canonical_name": "Female"}'
    downloads.write_text(tmp_path / "kb/mesh_only.jsonl.gz", made)
    mesh_alone.main(tmp_path, tmp_path / "out.jsonl.gz")
    assert list(open_source(tmp_path / "out.jsonl.gz").entities) == [Entity("D3", "Female")]
