import gzip
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.build import united
from spacy_pel.kb.readers import ReadOptions, detected_format, open_source
from spacy_pel.kb.readers.build_from_sources import build_from_sources
from spacy_pel.kb.readers.tables import read_mapping

from ...conftest import write_text

ENTITIES = [
    Entity("C1", "Fever, high", ("Pyrexia", "发烧"), ("Finding",), "Hot.", xrefs=("M:1",)),
    Entity("C2", 'A 5" tube'),
]
CSV = (
    "concept_id,canonical_name,aliases,types,definition,xrefs,score\r\n"
    'C1,"Fever, high",Pyrexia| 发烧|,Finding,Hot.,M:1,7\r\nC2,"A 5"" tube",,,,,\r\n'
)


def read(path: Path, columns: dict[str, str] = {}) -> list[Entity]:
    return list(united(open_source(path, options=ReadOptions(columns=columns)).entities))


@pytest.mark.parametrize("name", ["X.CSV.GZ", "it's [a]*.csv"])
def test_reads_csv(tmp_path: Path, name: str) -> None:
    data = b"\xef\xbb\xbf" + CSV.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    (tmp_path / "it's a.csv").write_text("concept_id,canonical_name\nC3,of another file\n")
    assert read(tmp_path / name) == ENTITIES


def test_a_csv_may_have_tabs_and_quotes_that_quote_nothing(tmp_path: Path) -> None:
    """As Athena writes CONCEPT.csv, the concepts of OMOP."""
    rows = ["concept_id\tconcept_name\tdomain_id", '1\t"Open\tDrug', '2\t5" tube, long\tDevice']
    path = write_text(tmp_path / "CONCEPT.csv", "\n".join([*rows, '3\tShut"\tDrug', ""]))
    names = {"concept_name": "canonical_name"}
    found = open_source(path, options=ReadOptions(columns=names)).entities
    assert [entity.canonical_name for entity in found] == ['"Open', '5" tube, long', 'Shut"']


def test_reads_parquet_with_lists(tmp_path: Path) -> None:
    duckdb.sql(
        f"COPY (SELECT 7 AS concept_id, 'x' AS canonical_name, ['a', NULL, 'b'] AS aliases, "
        f"'c|d' AS types, NULL AS definition) TO '{tmp_path / 'x.parquet'}'"
    )
    assert read(tmp_path / "x.parquet") == [Entity("7", "x", ("a", "b"), ("c", "d"))]


def test_several_rows_an_entity_and_columns_of_other_names(tmp_path: Path) -> None:
    rows = [
        "\tId\tid\tDE\tFR\taliases",
        "\t2\ttwo\tzwei\tdeux\tno",
        "\t1\tone\t\t\t",
        "\t2\tII\t\t\t",
    ]
    path = write_text(tmp_path / "x.tsv", "\n".join(rows))
    columns = {"Id": "concept_id", "id": "canonical_name", "DE": "aliases", "FR": "aliases"}
    assert read(path, columns) == [Entity("1", "one"), Entity("2", "two", ("zwei", "deux", "II"))]


@pytest.mark.parametrize(
    "header, columns, fault",
    [
        ("concept_id,name\n", {"nom": "canonical_name"}, "no column 'nom'"),
        ("concept_id,name\n", {"name": "nom"}, "no field 'nom'"),
        ("a,b,c\n", {"a": "concept_id", "b": "canonical_name", "c": "concept_id"}, "several"),
    ],
)
def test_columns_that_are_not_there(tmp_path: Path, header: str, columns: dict, fault: str) -> None:
    with pytest.raises(PelError, match=fault):
        read(write_text(tmp_path / "x.csv", header), columns)


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
    return write_text(folder / "CTD_diseases.tsv.gz", "\n".join(lines))


def disease(id: str, name: str, source: str = "MSH", **fields: object) -> Entity:
    return Entity(id, name, types=("Diseases",), sources=(source,), **fields)


def test_reads_diseases_of_mesh_and_omim(tmp_path: Path) -> None:
    path = medic(tmp_path, ROWS)
    assert detected_format(path) == "medic"
    crv = {"aliases": ("HERNS", "CRV 2"), "alt_ids": ("192315", "192316"), "parents": ("D2", "C7")}
    flu = {"aliases": ("FLU1", "Grippe"), "definition": "A virus.", "alt_ids": ("9",)}
    assert list(united(open_source(path).entities)) == [
        disease("300323", "GOUT 3", "OMIM", alt_ids=("D5", "D6")),
        disease("C566007", "CRV", "OMIM", **crv),
        disease("C7", "Flu of Ghent", parents=("D2",)),
        disease("D2", "Flu", **flu, xrefs=("DO:DOID:8469",)),
    ]
    # It joins the records of MeSH.
    mesh = tmp_path / "mesh.jsonl"
    mesh.write_text('{"concept_id": "D2", "canonical_name": "Influenza", "aliases": ["Flu"]}\n')
    build_from_sources([mesh, path], tmp_path / "kb")
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb["9"].names == ("Influenza", "Flu", "FLU1", "Grippe")
        assert len(kb) == 4


def test_faults_of_medic_are_named(tmp_path: Path) -> None:
    with pytest.raises(PelError, match="no comment names its columns; fetch CTD_diseases"):
        open_source(medic(tmp_path, ROWS, columns="DiseaseName\tDiseaseID"))
    with pytest.raises(PelError, match=r"tsv\.gz, line 6: 2 cells, but the first row has 9"):
        list(open_source(medic(tmp_path, [ROWS[1], ("Flu", "MESH:D2")])).entities)


HEAD = (
    "# curie_map:\n#   UMLS: http://umls/\n"
    "subject_id\tsubject_label\tpredicate_id\tpredicate_modifier\tobject_id\n"
)


def test_exact_matches_without_the_prefix_of_umls(tmp_path: Path) -> None:
    rows = ["MONDO:1\tx\tskos:exactMatch\t\tUMLS:C0012634", "M:2\tx\tskos:broadMatch\t\tUMLS:C2"]
    rows += ["M:3\tx\tskos:exactMatch\tNot\tUMLS:C3", "MESH:D000001\tx\tskos:exactMatch\t\tDOID:4"]
    path = write_text(tmp_path / "m.sssom.tsv.gz", HEAD + "\n".join([*rows, ""]))
    assert read_mapping([path]) == {"MONDO:1": "C0012634", "D000001": "DOID:4"}


@given(st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefg")), max_size=12))
def test_linked_ids_lead_to_one_end(tmp_path_factory, pairs: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.getbasetemp() / "linked.sssom.tsv"
    rows = [f"X:{one}\tskos:exactMatch\tX:{other}\n" for one, other in pairs]
    path.write_text("subject_id\tpredicate_id\tobject_id\n" + "".join(rows))
    mapping = read_mapping([path])

    def end(id: str) -> str:
        while id in mapping:
            id = mapping[id]
        return id

    groups = {id: {id} for id in "abcdefg"}
    for one, other in pairs:
        union = groups[one] | groups[other]
        groups.update(dict.fromkeys(union, union))
    for group in groups.values():
        [last] = {end(f"X:{id}") for id in group}
        assert last.removeprefix("X:") in group


@pytest.mark.parametrize(
    "text, fault",
    [
        ("subject_id\tobject_id\n", ": no column predicate_id"),
        (f"{HEAD}A:1\tx\tskos:exactMatch\n", "line 4: 3 cells, but the first row has 5"),
        (f"{HEAD}A:1\tx\tskos:exactMatch\t\tC1\n", "line 4: 'C1' is not a CURIE"),
        (f"{HEAD}A:1\tx\tskos:exactMatch\t\tB:1\x012\n", "line 4: the id .* control characters"),
    ],
)
def test_a_bad_mapping_is_named(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "m.sssom.tsv").write_text(text)
    with pytest.raises(PelError, match=rf"m\.sssom\.tsv.*{fault}"):
        read_mapping([tmp_path / "m.sssom.tsv"])
