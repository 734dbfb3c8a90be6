import csv
import io
import json
from pathlib import Path

import pytest

from spacy_pel.curation.check_ids import (
    CORRECT,
    OTHER,
    RETIRED,
    UNKNOWN,
    check,
    check_table,
    ground,
    opened,
)
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.change import change_entities
from spacy_pel.text.entity_texts import EntityText

LIVER = Entity("C08", "hepatic cirrhosis", ("cirrhosis of the liver",), retired_ids=("C80", "D80"))


@pytest.fixture
def kb(bare_kb: KnowledgeBase) -> KnowledgeBase:
    change_entities(bare_kb.path, "add", [LIVER])
    bare_kb.refresh()
    return bare_kb


@pytest.mark.parametrize(
    ("name", "id", "verdict", "proposed"),
    [
        ("Multiple  Sclerosis", " C01", CORRECT, "C01"),
        ("multiple sclerosis", "C02", OTHER, "C01"),
        ("MS", "C02", CORRECT, "C02"),  # of two owners the one whose id was given
        ("acetylsalicylic acid", "C99", UNKNOWN, "C05"),
        ("headache", "C80", RETIRED, "C06"),
        ("hepatic cirrhosis", "MESH:D80", RETIRED, "C08"),
        ("rheumatoid arthritis", "X3", CORRECT, "C03"),  # an alternative id is one of today
        ("rheumatoid artritis", "C03", CORRECT, "C03"),  # near names are told by their letters
        ("liver cirrhosis", "C01", OTHER, "C08"),
        ("xyzzy", "C05", OTHER, ""),
        ("", "", UNKNOWN, ""),
    ],
)
def test_a_pair_gets_its_verdict_and_the_id_that_it_needs(kb, name, id, verdict, proposed) -> None:
    [found] = check(kb, [(name, id)])
    assert (found.verdict, found.proposed) == (verdict, proposed)
    assert found.means == ("" if verdict == UNKNOWN else kb[id.strip().removeprefix("MESH:")][1])
    assert found.proposed_name == (kb[proposed].canonical_name if proposed else "")
    assert 0.5 <= found.probability <= 0.99


def test_names_are_grounded_best_first(kb: KnowledgeBase) -> None:
    owners, near, none = ground(kb, ["MS", "cirrhosis hepatis", "xyzzy"], n=2)
    assert [(m.id, m.probability) for m in owners] == [("C01", 0.5), ("C02", 0.5)]
    assert (near[0].id, near[0].name) == ("C08", "hepatic cirrhosis") and near[0].probability > 0.5
    assert none == [] and ground(kb, []) == []


def test_a_pipeline_compares_vectors(tiny_folder: Path) -> None:
    linker = opened(str(tiny_folder))
    name = "disseminated sclerosis x"  # no exact name, so the vectors decide
    [[best, *_]] = ground(linker, [name])
    [verdict, exact] = check(linker, [(name, best.id), ("aspirin", "C06")])
    query = linker.retriever.entity_vectors([EntityText(name)])
    assert linker.kb.labels(linker.kb.search(query, 1).numbers[0])[0][0] == best.id
    assert (verdict.verdict, verdict.proposed) == (CORRECT, best.id)
    assert verdict.probability >= best.probability
    assert (exact.verdict, exact.proposed) == (OTHER, "C05")


def test_a_table_keeps_its_columns(kb: KnowledgeBase, tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    table.write_text('note,id,name,verdict\n"a, b",C05,aspirin,old\n,C05,kidney,\n', "utf8")
    files = {suffix: io.StringIO() for suffix in (".jsonl", ".tsv", ".csv")}
    for suffix, file in files.items():
        assert list(check_table(kb, table, file, suffix)) == [CORRECT, OTHER]
        file.seek(0)
    rows = [json.loads(line) for line in files[".jsonl"]]
    found = [(row["note"], row["verdict"], row["proposed"]) for row in rows]
    assert found == [("a, b", CORRECT, "C05"), ("", OTHER, "C07")]
    for suffix, delimiter in ((".tsv", "\t"), (".csv", ",")):
        read = csv.DictReader(files[suffix], delimiter=delimiter)
        assert list(read) == [{k: str(v) for k, v in row.items()} for row in rows]


def test_a_table_without_the_columns_is_refused(kb: KnowledgeBase, tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    for text in ("", "name\tidentifier\nMS\tC01\n"):
        table.write_text(text, "utf8")
        with pytest.raises(PelError, match="line 1 names no columns 'name' and 'id'"):
            list(check_table(kb, table, io.StringIO()))
