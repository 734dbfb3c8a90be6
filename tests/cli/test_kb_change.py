from pathlib import Path

import pytest

from spacy_pel.kb import Entity, KnowledgeBase

from ..conftest import ENTITIES, contents, records, write_text
from .conftest import write_entities

NEW = [Entity("C08", "gout", ("podagra",), ("Disease",)), Entity("C09", "rest")]


@pytest.fixture
def jsonl(tmp_path: Path):
    """Writes entities to a file."""
    return lambda *entities: write_entities(tmp_path / "source.jsonl", entities)


def test_without_vectors(run, bare_kb: KnowledgeBase, jsonl) -> None:
    folder = bare_kb.path
    kidney = ENTITIES[6]._replace(aliases=("ren",))
    merged = [Entity("C07", "Niere"), Entity("C10", "ear")]
    for kind, source, said in (
        ("add", NEW, "2 added; 9 entities now"),
        ("update", [*ENTITIES[:6], kidney], "1 updated; 9 entities now"),
        ("merge", merged, "1 added, 1 updated; 10 entities"),
    ):
        assert said in run("kb", "change", kind, folder, jsonl(*source))
    assert "3 removed; 7 entities" in run("kb", "change", "remove", folder, "C01", "C02", "C03")
    assert "'C99' is not in" in run("kb", "change", "remove", folder, "C99", code=1)
    assert "Verified" in run("kb", "verify", folder)
    kb = KnowledgeBase.open(folder)
    assert [e.concept_id for e in kb.by_id()] == [f"C{number:02}" for number in range(4, 11)]
    assert kb["C07"] == kidney._replace(aliases=("ren", "Niere"))
    output = run("kb", "change", "update", folder, jsonl(kb["C07"]))
    assert "nothing changed; 7 entities now" in output


def test_merge_by_a_mapping(run, bare_kb: KnowledgeBase, jsonl, tmp_path: Path) -> None:
    table = tmp_path / "ids.sssom.tsv"
    rows = ["subject_id\tpredicate_id\tobject_id", "X:5\tskos:exactMatch\tUMLS:C0000005"]
    table.write_text("\n".join(rows))
    run("kb", "change", "add", bare_kb.path, jsonl(Entity("C0000005", "gout")))
    podagra = (bare_kb.path, jsonl(Entity("X:5", "podagra")), "--mapping", table)
    assert "No such option: --mapping" in run("kb", "change", "add", *podagra, code=2)
    run("kb", "change", "merge", *podagra)
    kb = KnowledgeBase.open(bare_kb.path)
    assert kb["X:5"] == Entity("C0000005", "gout", ("podagra",), alt_ids=("X:5",))
    assert [Path(source).name for source in kb.settings["sources"]] == ["source.jsonl", table.name]


def test_what_is_refused_changes_nothing(run, bare_kb, tiny_folder, jsonl) -> None:
    folder, source = bare_kb.path, jsonl(*NEW)
    add = ("kb", "change", "add", folder, source)
    run("kb", "embed", folder, tiny_folder)
    before = contents(folder)
    assert "--pipeline PIPELINE" in run(*add, code=1)  # new entities need vectors
    source.write_text(source.read_text() + '\n{"concept_id": "C99"}')
    output = run(*add, "--pipeline", tiny_folder, code=1)
    assert "line 3: 'canonical_name' is missing" in output
    assert contents(folder) == before


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    mentions = "0\t5\tRenal\tAnatomy\tC07", "15\t17\tRF\tDisease\tC06"
    mentions += "23\t31\tcephalea\tDisease\tC06", "33\t35\tRF\tDisease\tC06"
    text = "1|t|Renal failure (RF) and cephalea.\n1|a|RF was treated.\n"
    return write_text(tmp_path / "train.pubtator", text + "".join(f"1\t{m}\n" for m in mentions))


def test_names_and_acronyms_are_learnt(run, bare_kb, tiny_folder, corpus, tmp_path) -> None:
    folder = bare_kb.path
    # Names that resemble no name of their entities are learnt from several documents alone.
    said = corpus.read_text("utf8")
    again = ("2" + line[1:] for line in said.replace("treated", "cured").splitlines(keepends=True))
    corpus.write_text(f"{said}\n{''.join(again)}", "utf8")
    assert "kb build" in run("kb", "learn", tmp_path / "none", corpus, code=1)
    run("kb", "embed", folder, tiny_folder)
    learn = ("kb", "learn", folder)
    assert "--pipeline PIPELINE" in run(*learn, corpus, code=1)
    output = run(*learn, corpus, "--pipeline", tiny_folder)
    assert "4 new names from 8 mentions" in output and "2 updated" in output
    kb = KnowledgeBase.open(folder)
    assert kb["C07"].aliases == ("Renal",) and len(kb.rows([kb.number("C06")])[0]) == 6
    texts = write_text(tmp_path / "texts.txt", "A right atrium (RAT).\n")
    acronyms = ("--acronyms", "--pipeline", tiny_folder, "--weak-labels", tmp_path / "w.pubtator")
    output = run(*learn, texts, *acronyms)
    assert "1 abbreviations of entities from 1 texts" in output and "1 updated" in output
    assert "1 weakly labelled documents:" in output and "RAT" in acronyms[-1].read_text()


def test_mentions_are_learnt_shown_and_forgotten(run, bare_kb, tiny_folder, corpus) -> None:
    folder = bare_kb.path
    run("kb", "embed", folder, tiny_folder)
    output = run("kb", "learn", folder, corpus, "--mentions", "--pipeline", tiny_folder)
    assert "4 of 4 mentions of 2 entities" in output
    source = f"{corpus.parent.name}/{corpus.name}"
    assert f"{source}: 4" in run("kb", "info", folder)
    assert "has learnt no mentions from" in run("kb", "forget", folder, "--source", "x", code=1)
    assert "4 mentions" in run("kb", "forget", folder, "--source", source)
    assert KnowledgeBase.open(folder).settings["mentions"] is None


def test_a_new_release(run, bare_kb: KnowledgeBase, jsonl, tmp_path: Path) -> None:
    release = jsonl(ENTITIES[0]._replace(canonical_name="Eye"), *ENTITIES[1:], NEW[0])
    listed, before = tmp_path / "changes.jsonl", contents(bare_kb.path)
    upgrade = ("kb", "upgrade", bare_kb.path, release)
    output = run(*upgrade, "--compare", "--output", listed)
    assert "C08 gout" in output and f"{ENTITIES[0].canonical_name} → Eye" in output
    assert [line["kind"] for line in records(listed)] == ["new", "renamed"]
    assert contents(bare_kb.path) == before
    assert "2 records are new or have changed" in run(*upgrade)
    assert KnowledgeBase.open(bare_kb.path)["C01"].canonical_name == "Eye"
    output = run("kb", "upgrade", bare_kb.path, jsonl(NEW[0]), code=1)
    assert "7 of 8 entities are not in the new release" in output
