import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import mesh_alone
import prepare
import pytest
import srsly
from mesh_alone import folded, mesh_only, without_moved_names
from selection import selected
from weasel.cli.run import check_rerun, load_project_config, project_run

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, open_source

from . import downloads

CHEMICAL, PROTEIN = "Chemicals and Drugs", "Amino Acids, Peptides, and Proteins"


def run_here(commands: list[str], **_: object) -> None:
    """Run commands in this process, which has imported what they need."""
    for command in commands:
        python, script, *arguments = command.split()
        assert (python, script) == ("python", "scripts/prepare.py")
        prepare.app(arguments, standalone_mode=False)


def test_the_workflows_make_corpora_and_kbs(project: Path, tmp_path: Path, monkeypatch) -> None:
    shutil.copytree(project / "release", tmp_path, dirs_exist_ok=True)
    downloads.write_downloads(tmp_path / "assets")
    monkeypatch.setattr("weasel.cli.run.run_commands", run_here)
    for workflow in ("prepare", "prepare-extra"):
        project_run(tmp_path, workflow)
    data = tmp_path / "data"
    for name, text in {
        "corpora/bc5cdr/train": downloads.TRAIN,
        "corpora/bc5cdr/dev": downloads.DEV,
        "held_out/bc5cdr/test": downloads.TEST,
        "corpora/ncbi_disease/train": downloads.NCBI,
        "corpora/biored/train": downloads.BIORED,
    }.items():
        assert gzip.decompress((data / f"{name}.pubtator.txt.gz").read_bytes()).decode() == text
    found_in = {"train": ("7", "Heart", ("C0018787",)), "dev": ("8", "Eyes", ("C0015392",))}
    for split, found in found_in.items():
        corpus = open_corpus(data / f"corpora/medmentions/{split}.pubtator.txt.gz")
        assert [(d.id, m.text, m.ids) for d in corpus.documents() for m in d.mentions] == [found]
    kbs = {
        name: {e.concept_id: e for e in open_source(data / f"kb/{name}.jsonl.gz").entities}
        for name in ("mesh_only", "mesh", "medmentions_open")
    }
    names = {"C7": ("Rare flu", "Odd flu"), "D2": ("Influenza", "Grippe")}
    assert {id: e.names for id, e in kbs["mesh_only"].items()} == names
    flu = kbs["mesh"]["D2"]
    assert (flu.alt_ids, flu.definition) == (("614680",), "A virus.")
    assert flu.names == ("Influenza", "Grippe", "FLU7")
    assert kbs["mesh"]["300323"].names == ("GOUT 3",)
    assert {e.types for e in kbs["mesh"].values()} == {("Diseases",)}
    # HP:1 refers to no concept, and DOID:2 to two. Mentions of dev and test name nothing.
    assert {id: (e.names, e.types) for id, e in kbs["medmentions_open"].items()} == {
        "C0018787": (("heart", "Heart"), ("ANAT",)),
        "C0021400": (("influenza", "flu"), ("DISO",)),
    }
    # Only what is made of a changed download is made again.
    downloads.write_text(tmp_path / "assets/medic/CTD_diseases.tsv.gz", downloads.MEDIC[:-1])
    commands = {c["name"]: c for c in load_project_config(tmp_path)["commands"]}
    prepared = "bc5cdr ncbi-disease biored medmentions-splits mesh-entities medmentions-entities"
    made_again = [name for name in prepared.split() if check_rerun(tmp_path, commands[name])]
    assert made_again == ["mesh-entities"]


def test_no_workflow_reads_held_out_documents(project: Path) -> None:
    for command in srsly.read_yaml(project / "release" / "project.yml")["commands"]:
        assert "held_out" not in json.dumps([command["script"], command.get("deps")])
    for config in (project / "configs").glob("*.cfg"):
        assert "held_out" not in config.read_text("utf8")


def test_a_changed_source_is_reported_and_used(tmp_path: Path, capsys) -> None:
    downloads.write_downloads(tmp_path)
    prepare.corpus("bc5cdr", tmp_path, tmp_path / "data")
    lines = " ".join(capsys.readouterr().out.split())
    assert "has changed: expected 500 documents, 9,385 mentions" in lines
    assert "train.pubtator.txt.gz: 1 documents, 2 mentions" in lines


@pytest.mark.parametrize(
    "file",
    ["bc5cdr/CDR_Data.zip", "medmentions/st21pv/data/corpus_pubtator.txt.gz", "mesh/supp2026.gz"],
)
def test_a_download_that_was_cut_off(tmp_path: Path, file: str) -> None:
    downloads.write_downloads(tmp_path)
    path, name = tmp_path / file, file.partition("/")[0]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(PelError, match=": damaged"):
        if name == "mesh":
            prepare.joined(tmp_path / "data" / "x.gz", [tmp_path / name])
        prepare.corpus(name, tmp_path, tmp_path / "data")
    assert not [path for path in (tmp_path / "data").rglob("*") if path.is_file()]


def test_an_archive_of_something_else(tmp_path: Path) -> None:
    downloads.write_zip(tmp_path / "bc5cdr/CDR_Data.zip", {"a/README.txt": ""})
    with pytest.raises(PelError, match="holds no CDR_TrainingSet.*, but a/README.txt"):
        prepare.corpus("bc5cdr", tmp_path, tmp_path / "data")


# Of MeSH and of MEDIC.
KNOWN = (
    {"D1": frozenset(map(folded, ("Leukaemia", "AML-1")))},
    {"D1": frozenset(map(folded, ("Leukemia", "Blood cancer", "AML-1", "LEUK7")))},
)


def kept(*aliases: str, id: str = "D1", alt_ids: tuple[str, ...] = ("151430",)) -> tuple[str, ...]:
    [entity] = mesh_only([Entity(id, "Name", aliases, alt_ids=alt_ids)], *KNOWN, Counter())
    return entity.aliases


def test_a_name_that_became_a_record_of_its_own_leaves_the_old_record() -> None:
    old = Entity("D1", "Cerebral Infarction", ("Ischaemic Stroke", "Cerebral Infarct"))
    new = Entity("D2", "Ischemic Stroke", ("ischemic stroke",))
    left_out: Counter[str] = Counter()
    kept = without_moved_names([old, new], left_out)
    assert kept == [old._replace(aliases=("Cerebral Infarct",)), new]
    assert left_out == {"names of other records": 1}


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


def test_mesh_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names, new, out = (tmp_path / name for name in ("names.tsv", "new.jsonl", "out.jsonl.gz"))
    names.write_text("D1\tLeukemia\tblood cancer\tpatient\n")
    prepare.write_entities(tmp_path / "new.jsonl.gz", [Entity("PEL:x", "Xyzol", sources=("FDA",))])
    new.write_bytes(gzip.decompress((tmp_path / "new.jsonl.gz").read_bytes()))
    with pytest.raises(SystemExit):
        mesh_alone.main(tmp_path, names, new, out)
    assert "spacy project run prepare" in capsys.readouterr().out
    mesh = Entity("D1", "Leukemia", ("LEUK7", "AML-1"), ("X",), alt_ids=("151430", "C9"))
    joined = [mesh, Entity("300323", "GOUT 3", ("HPRT",))]
    prepare.write_entities(tmp_path / "kb/mesh_today.jsonl.gz", joined)
    hoarding = {
        "concept_id": "D2",
        "canonical_name": "Hoarding",
        "types": ["Y"],
        "tree_numbers": ["F03.1"],
    }
    with gzip.open(tmp_path / "kb/mesh_today.jsonl.gz", "at") as file:
        file.write(json.dumps(hoarding) + "\n")
    ascii = "*NEWRECORD\nMH = Leukaemia\nENTRY = AML-1\nUI = D1\n"
    downloads.write_text(tmp_path / "ontologies/mesh_ascii_d2014.bin.gz", ascii)
    medic = tmp_path / "ontologies/medic_2012.txt.gz"
    downloads.write_text(medic, "D1|151430||Leukemia|LEUK7|AML-1\n")
    mesh_alone.main(tmp_path, names, new, out)
    aliases = ("AML-1", "blood cancer")
    expected = Entity("D1", "Leukemia", aliases, ("Diseases", "X"), alt_ids=("C9",))
    mental = Entity("D2", "Hoarding", types=("Diseases", "Y"))
    new_one = Entity("PEL:x", "Xyzol", sources=("FDA",))
    assert list(open_source(out).entities) == [expected, mental, new_one]
    assert "1 entities, 1 ids, 3 names" in capsys.readouterr().out
    prepare.write_entities(tmp_path / "kb/mesh_only.jsonl.gz", [Entity("D3", "Female")])
    mesh_alone.main(tmp_path, names, new, out)
    assert next(iter(open_source(out).entities)) == Entity("D3", "Female")


@pytest.mark.parametrize(
    ("entity", "kept"),
    [
        (Entity("C1", "Bacillus novus", (), ("Organisms",)), None),
        (Entity("C2", "BRPF1 protein, human", (), (CHEMICAL, PROTEIN)), None),
        (Entity("C3", "pembrolizumab", (), (CHEMICAL, PROTEIN)), ""),
        (Entity("C4", "olipudase alfa", (), (CHEMICAL, PROTEIN)), ""),
        (Entity("C5", "2-(4-(3-chlorophenyl)-1-piperazinyl)thiazole", (), (CHEMICAL,)), None),
        (
            Entity("C6", "N-(2,3-dioxo-1,4-dihydroxy)quinoline", ("XY 27", "DOQ cpd"), (CHEMICAL,)),
            "XY 27",
        ),
        (Entity("D7", "Heart Failure", ("Failure, Heart", "Cardiac Failure")), "Cardiac Failure"),
        (Entity("C8", "Deafness, X-Linked 2", ("DFNX2",), ("Diseases",)), "DFNX2"),
    ],
)
def test_records_and_names_that_texts_use_are_selected(entity: Entity, kept: str | None) -> None:
    chosen = list(selected([entity], (), Counter()))
    assert ["".join(e.aliases) for e in chosen] == ([] if kept is None else [kept])
    assert list(selected([entity], {entity.concept_id}, Counter()))
