from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.readers import ReadOptions, detected_format, open_source
from spacy_pel.kb.readers.medic import read_medic
from spacy_pel.tasks.build_from_sources import build_from_sources

COLUMNS = (
    "DiseaseName\tDiseaseID\tAltDiseaseIDs\tDefinition\tParentIDs\tTreeNumbers\tParentTreeNumbers\t"
    "Synonyms\tSlimMappings"
)
ROWS = [
    ("Diseases", "MESH:C", "", "", "", "C", "", "", ""),
    ("Flu", "MESH:D2", "DO:DOID:8469|OMIM:9", "A virus.", "MESH:C", "C01", "C", "FLU1|Grippe", "x"),
    ("Flu of Ghent", "MESH:C7", "", "", "MESH:D2", "C01/C7", "C01", "", ""),
    ("CRV", "OMIM:192315", "MESH:C566007", "", "MESH:D2|MESH:C7", "", "", "HERNS", ""),
    ("CRV 2", "OMIM:192316", "MESH:C566007", "", "", "", "", "", ""),
    ("GOUT 3", "OMIM:300323", "MESH:D5|MESH:D6", "", "", "", "", "", ""),
]


def medic(folder: Path, rows: list[tuple[str, ...]], columns: str = COLUMNS) -> Path:
    lines = ["# MEDIC", "# Fields:", f"# {columns}", "#", *("\t".join(row) for row in rows), ""]
    path = folder / "CTD_diseases.tsv.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def disease(id: str, name: str, source: str = "MSH", **fields: object) -> Entity:
    return Entity(id, name, types=("Diseases",), sources=(source,), **fields)


def test_reads_diseases_of_mesh_and_omim(tmp_path: Path) -> None:
    path = medic(tmp_path, ROWS)
    assert detected_format(path) == "medic"
    assert list(read_medic(path, ReadOptions()).entities) == [
        disease("300323", "GOUT 3", "OMIM", alt_ids=("D5", "D6")),
        disease(
            *("C566007", "CRV", "OMIM"),
            **{"aliases": ("HERNS", "CRV 2"), "alt_ids": ("192315", "192316")},
            parents=("D2", "C7"),
        ),
        disease("C7", "Flu of Ghent", parents=("D2",)),
        disease(
            *("D2", "Flu"),
            **{"aliases": ("FLU1", "Grippe"), "definition": "A virus.", "alt_ids": ("9",)},
            xrefs=("DO:DOID:8469",),
        ),
    ]


def test_joins_the_records_of_mesh(tmp_path: Path) -> None:
    mesh = tmp_path / "mesh.jsonl"
    mesh.write_text('{"concept_id": "D2", "canonical_name": "Influenza", "aliases": ["Flu"]}\n')
    build_from_sources([mesh, medic(tmp_path, ROWS)], tmp_path / "kb")
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb["9"].names == ("Influenza", "Flu", "FLU1", "Grippe")
        assert len(kb) == 4


def test_faults_are_named(tmp_path: Path) -> None:
    with pytest.raises(PelError, match="no comment names its columns; fetch CTD_diseases"):
        open_source(medic(tmp_path, ROWS, columns="DiseaseName\tDiseaseID"))
    with pytest.raises(PelError, match=r"tsv\.gz, line 6: 2 columns, where the comment names 9"):
        list(open_source(medic(tmp_path, [ROWS[1], ("Flu", "MESH:D2")])).entities)
    with pytest.raises(PelError, match=r"line 5: .*blank canonical_name"):
        list(open_source(medic(tmp_path, [("", *ROWS[1][1:])])).entities)
