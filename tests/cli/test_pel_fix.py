import json
from pathlib import Path

from spacy_pel.kb import Entity, build_kb

from ..conftest import records, write_text

TEXT = "The RA hurts, says the doctor."


def linked(run, pipeline: Path, tmp_path: Path) -> list[tuple[str, str]]:
    text, out = tmp_path / "text.txt", tmp_path / "out.jsonl"
    text.write_text(TEXT)
    out.unlink(missing_ok=True)
    run("link", pipeline, text, "-o", out)
    [record] = records(out)
    return [(mention["text"], mention["id"]) for mention in record["mentions"]]


def test_a_correction_from_the_first_copy_to_its_undoing(run, tiny_folder, tmp_path) -> None:
    pipeline = tmp_path / "mine"
    assert "links to 7 entities" in run("copy", tiny_folder, pipeline)
    assert "exists" in run("copy", tiny_folder, pipeline, code=1)
    [(_, before)] = linked(run, pipeline, tmp_path)
    right = {"C03": "C04", "C04": "C03"}[before]
    export = tmp_path / "linked.json"
    mention = {"start": 4, "end": 6, "label": "TERM", "id": right, "name": "?", "candidates": []}
    export.write_text(json.dumps({"text": TEXT, "mentions": [mention]}))
    assert f"1 RA is {right}, in The [RA] hurts" in run("fix", pipeline, export)
    assert linked(run, pipeline, tmp_path) == [("RA", right)]
    assert "RA is" in run("fix", pipeline)
    assert "Removed 1 corrections from" in run("fix", pipeline, "--undo", "1")
    assert "has no corrections" in run("fix", pipeline)
    assert linked(run, pipeline, tmp_path) == [("RA", before)]
    run("fix", pipeline, "--name", "RA", "--id", "NIL", "--label", "term")
    assert linked(run, pipeline, tmp_path) == [("RA", "NIL")]
    assert "RA is NIL, with the label term" in run("fix", pipeline)
    run("fix", pipeline, "--undo", "all")
    # What a linker answered is nobody's decision.
    export.write_text(json.dumps({"text": TEXT, "mentions": [{**mention, "score": 0.5}]}))
    assert "Nothing to correct" in run("fix", pipeline, export)


def test_refused(run, tiny_folder: Path) -> None:
    for arguments, said in (
        (("--name", "RA"), "--name and --id go together"),
        (("--name", "RA", "--id", "C99"), "'C99' is not in"),
        (("--name", "RA", "--id", "C03", "--undo", "1"), "conflicting arguments"),
        (("--undo", "RA"), "not a number"),
        (("--undo", "4"), "has no correction 4"),
    ):
        assert said in run("fix", tiny_folder, *arguments, code=1)


def test_own_entities_and_synonyms_in_a_pipeline(run, tiny_folder: Path, tmp_path: Path) -> None:
    pipeline, drugs = tmp_path / "mine", tmp_path / "drugs.csv"
    run("copy", tiny_folder, pipeline)
    drugs.write_text("id,name,synonyms\nX1,zelotuximab,Zelotux; zelo-abcd\nX2,plain,a; b|c\n")
    assert "2 added; 9 entities" in run("kb", "change", "add", pipeline, drugs)
    synonyms = ("--synonym", "C07=ren", "--synonym", "X3=rheuma = joints", "--synonym", "C07=Niere")
    assert "2 updated" in run("kb", "change", "add", pipeline, *synonyms)
    shown = run("kb", "info", pipeline, "zelotux")
    assert "X1 zelotuximab also: Zelotux; zelo-abcd" in shown
    assert "also: a; b; c" in run("kb", "info", pipeline, "X2")
    assert "also: ren; Niere" in run("kb", "info", pipeline, "C07")
    assert "rheuma = joints" in run("kb", "info", pipeline, "C03")
    assert "Verified" in run("kb", "verify", pipeline)
    for wrong, said in (("C99=x", "'C99' is not in"), ("C07=", "lacks an id or a name")):
        assert said in run("kb", "change", "add", pipeline, "--synonym", wrong, code=1)
    assert "either SOURCE or --synonym" in run("kb", "change", "add", pipeline, code=1)
    table = write_text(tmp_path / "coded.csv", "Code,Title\nX9,gout\n")
    named = ("--column", "concept_id=Code", "--column", "canonical_name=Title")
    assert "1 added" in run("kb", "change", "add", pipeline, table, *named)


def test_many_synonyms_are_folded(run, tmp_path: Path) -> None:
    names = tuple(f"s{n}" for n in range(14))
    kb = build_kb([Entity("X1", "first", names)], tmp_path / "kb").path
    assert "s8; s9 and 4 more (--json)" in run("kb", "info", kb, "first")
    assert "s13" in run("kb", "info", kb, "first", "--json")
