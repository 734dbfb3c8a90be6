"""``prepare`` makes the project's data of archives as their authors publish them; MeSH alone."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import corpora
import mesh_alone
import prepare
import pytest
import srsly
import typer
import vocabularies
from mesh_alone import folded, mesh_only
from recipe import FETCH, FETCH_EXTRA

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.kb import Entity, open_source

from . import downloads

RECIPES = (*corpora.RECIPES, *vocabularies.RECIPES)
MADE = {recipe.output for recipe in RECIPES}


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    downloads.write_downloads(tmp_path / "assets")
    return tmp_path / "assets"


def prepared(assets: Path, data: Path) -> int:
    """The exit code of a run."""
    with pytest.raises(typer.Exit) as exit:
        prepare.main(assets, data)
    return exit.value.exit_code


def lines_of(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, as one line without colours."""
    return " ".join(re.sub("\x1b.*?m", "", capsys.readouterr().out).split())


def unpacked(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def files_in(data: Path) -> set[str]:
    return {path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file()}


def test_corpora_are_as_in_the_archives(assets: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert prepared(assets, data) == 0
    assert files_in(data) == MADE | {"sources.json"}
    assert unpacked(data / "corpora/bc5cdr/train.pubtator.txt.gz") == downloads.TRAIN
    assert unpacked(data / "corpora/bc5cdr/dev.pubtator.txt.gz") == downloads.DEV
    assert unpacked(data / "held_out/bc5cdr/test.pubtator.txt.gz") == downloads.TEST
    assert unpacked(data / "corpora/ncbi_disease/train.pubtator.txt.gz") == downloads.NCBI
    found = {}
    for path in ("corpora/medmentions/train", "corpora/medmentions/dev"):
        corpus = open_corpus(data / f"{path}.pubtator.txt.gz")
        found[path] = [(d.id, m.text, m.ids) for d in corpus.documents() for m in d.mentions or ()]
    assert found == {
        "corpora/medmentions/train": [("7", "Heart", ("C0018787",))],
        "corpora/medmentions/dev": [("8", "Eyes", ("C0015392",))],
    }


def test_knowledge_bases_are_joined(assets: Path, tmp_path: Path) -> None:
    prepared(assets, tmp_path)
    kbs = {
        name: {e.concept_id: e for e in open_source(tmp_path / f"kb/{name}.jsonl.gz").entities}
        for name in ("mesh_only", "mesh", "medmentions_open")
    }
    assert {id: e.names for id, e in kbs["mesh_only"].items()} == {
        "C7": ("Rare flu",),
        "D2": ("Influenza", "Grippe"),
    }
    assert kbs["mesh"]["D2"].names == ("Influenza", "Grippe", "FLU7")
    assert kbs["mesh"]["D2"].alt_ids == ("614680",)
    assert kbs["mesh"]["300323"].names == ("GOUT 3",)
    assert {e.types for e in kbs["mesh"].values()} == {("Diseases",)}
    assert kbs["mesh"]["D2"].definition == "A virus."
    # HP:1 refers to no concept, and DOID:2 to two. Mentions of dev and test name nothing.
    assert {id: (e.names, e.types) for id, e in kbs["medmentions_open"].items()} == {
        "C0018787": (("heart", "Heart"), ("ANAT",)),
        "C0021400": (("influenza", "flu"), ("DISO",)),
    }


def test_a_changed_source_is_reported_and_used(
    assets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared(assets, tmp_path / "data")
    lines = lines_of(capsys)
    assert "CDR_Data.zip has changed: CDR_TrainingSet.PubTator.txt: expected 500 documents" in lines
    assert "9,385 mentions, found 1 documents, 2 mentions" in lines
    assert "trainset_corpus.zip has changed: SHA-256: expected 26157233d70aeda0b2ac1dda4fc" in lines
    assert "train: expected 2,635 documents, 122,241 mentions, found 1 documents, 1" in lines
    assert "kb/mesh_only.jsonl.gz: made: 2 entities, 3 names of MeSH 2026" in lines


def test_what_was_made_is_kept_until_its_download_changes(
    assets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    prepared(assets, data)
    before = {name: (data / name).stat().st_mtime_ns for name in MADE}
    capsys.readouterr()
    assert prepared(assets, data) == 0
    assert lines_of(capsys).count(": kept: ") == len(MADE)
    assert {name: (data / name).stat().st_mtime_ns for name in MADE} == before
    medic = downloads.MEDIC.replace("FLU7", "FLU8")
    downloads.write_text(assets / "medic/CTD_diseases.tsv.gz", medic)
    (data / "corpora/bc5cdr/dev.pubtator.txt.gz").unlink()
    prepared(assets, data)
    changed = {name for name in MADE if (data / name).stat().st_mtime_ns != before[name]}
    assert changed == {"kb/mesh.jsonl.gz", "corpora/bc5cdr/dev.pubtator.txt.gz"}
    assert "FLU8" in unpacked(data / "kb/mesh.jsonl.gz")


def test_the_users_own_files_stay(assets: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    downloads.write_text(data / "kb/mesh.jsonl.gz", "mine")
    assert prepared(assets, data) == 0
    (data / "sources.json").unlink()
    assert prepared(tmp_path / "none", data) == 0  # a folder with data needs no downloads
    assert files_in(data) == MADE and unpacked(data / "kb/mesh.jsonl.gz") == "mine"


def test_a_missing_download_names_the_command(
    assets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (assets / "medic/CTD_diseases.tsv.gz").unlink()
    for path in (assets / "medmentions").rglob("*.*"):
        path.unlink()
    assert prepared(assets, tmp_path / "data") == 1
    lines = lines_of(capsys)
    needs = f"kb/mesh.jsonl.gz: needs {assets}/medic/CTD_diseases.tsv.gz; fetch it: {FETCH}; or"
    assert needs.replace(" ", "") in lines.replace(" ", "")
    assert f"corpora/medmentions/dev.pubtator.txt.gz: not fetched: {FETCH_EXTRA}" in lines
    assert "kb/mesh_only.jsonl.gz: made" in lines  # an error does not end the run
    assert prepared(tmp_path / "none", tmp_path / "empty") == 1
    assert f"Fetch it first: {FETCH}" in lines_of(capsys)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("bc5cdr/CDR_Data.zip", "CDR_Data.zip: damaged"),
        ("ncbi_disease/NCBItrainset_corpus.zip", "NCBItrainset_corpus.zip: damaged"),
        ("mesh/supp2026.gz", "supp2026.gz: damaged gzip"),
        ("medic/CTD_diseases.tsv.gz", "CTD_diseases.tsv.gz: damaged gzip"),
        ("medmentions/st21pv/data/corpus_pubtator.txt.gz", "damaged gzip"),
    ],
)
def test_a_download_that_was_cut_off(
    assets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, problem: str
) -> None:
    path, data = assets / name, tmp_path / "data"
    path.write_bytes(path.read_bytes()[:-20])
    assert prepared(assets, data) == 1
    lines = lines_of(capsys)
    assert problem.replace(" ", "") in lines.replace(" ", "")
    assert "to fetch a file again, delete it, then run python -m spacy project assets" in lines
    of_it = {r.output for r in RECIPES if any(path == p for i in r.inputs for p in assets.glob(i))}
    assert files_in(data) == MADE - of_it | {"sources.json"}  # whole files, or none


def test_an_archive_of_something_else(
    assets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    downloads.write_zip(assets / "bc5cdr/CDR_Data.zip", {"a/README.txt": ""})
    downloads.write_text(assets / "mesh/desc2025.gz", downloads.DESCRIPTORS)
    assert prepared(assets, tmp_path / "data") == 1
    lines = lines_of(capsys)
    assert "holds no CDR_TestSet.PubTator.txt, but a/README.txt" in lines
    assert "keep one of them" in lines  # two years of MeSH


def test_project_yml_declares_what_is_read(project: Path) -> None:
    settings = srsly.read_yaml(project / "release" / "project.yml")
    variables = settings["vars"]
    found: dict[str, bool] = {}  # whether each asset is extra
    for asset in settings["assets"]:
        dest = re.sub(r"\$\{vars\.(\w+)\}", lambda m: str(variables[m[1]]), asset["dest"])
        found[dest.removeprefix("assets/")] = asset.get("extra", False)
    for recipe in RECIPES:
        for pattern in recipe.inputs:
            [extra] = [found[name] for name in found if Path(name).match(pattern)]
            assert not extra or recipe.fetch == FETCH_EXTRA
    assert not any("held_out" in json.dumps(command) for command in settings["commands"])
    for config in (project / "configs").glob("*.cfg"):
        assert "held_out" not in config.read_text("utf8")


# Of MeSH and of MEDIC.
KNOWN = (
    {"D1": frozenset(map(folded, ("Leukaemia", "AML-1")))},
    {"D1": frozenset(map(folded, ("Leukemia", "Blood cancer", "AML-1", "LEUK7")))},
)


def kept(*aliases: str, id: str = "D1", alt_ids: tuple[str, ...] = ("151430",)) -> tuple[str, ...]:
    [entity] = mesh_only([Entity(id, "Name", aliases, alt_ids=alt_ids)], *KNOWN, Counter())
    return entity.aliases


def test_names_of_mesh_without_those_of_medic_and_omim() -> None:
    assert kept("Leukemia", "AML-1") == ("Leukemia", "AML-1")  # MeSH's, in American spelling
    assert kept("Blood cancer") == ()  # of MEDIC alone
    assert kept("Leukemias") == ("Leukemias",)  # of neither: of a later year of MeSH
    assert kept("LEUK7", "LEUKEMIA, CHRONIC, Xq28") == ()  # of OMIM
    assert kept("LEUK8", alt_ids=()) == ("LEUK8",)  # without an id of OMIM MEDIC adds nothing
    # Of a supplementary record, whose names no list has.
    names = ("Spastic paraplegia 5B", "SPASTIC PARAPLEGIA 5B", "SPG5B", "Farber&apos;s")
    assert kept(*names, id="C5") == ("Spastic paraplegia 5B", "Farber's")
    assert kept("AZD8330", id="C5", alt_ids=("D7",)) == ("AZD8330",)


def test_ids_of_omim_stay_out() -> None:
    left_out: Counter[str] = Counter()
    entities = [
        Entity("D1", "LEUK", alt_ids=("151430", "C9"), types=("Disease", "X")),
        Entity("300323", "GOUT 3", ("HPRT",)),
    ]
    assert list(mesh_only(entities, *KNOWN, left_out)) == [
        Entity("D1", "LEUK", alt_ids=("C9",), types=("Diseases", "X"))
    ]
    assert left_out == {"entities": 1, "ids": 1, "names": 2}


def test_mesh_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
