"""Pipelines as a whole: started, assembled with a KB and a model card, averaged, checked."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from typer.testing import CliRunner

from spacy_pel.cli import pel
from spacy_pel.jobs.embed import embed_kb
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.linking.calibration import Calibration

from ..conftest import ENTITIES
from ..fitting.evaluation_corpus import CORPUS
from ..kb.examples import edit_settings


def test_start_makes_a_pipeline_and_names_the_next_command(
    run, tiny_folder: Path, tmp_path: Path
) -> None:
    table = tmp_path / "terms.csv"
    table.write_text("concept_id,canonical_name,aliases\nT1,headache,cephalgia\n")
    out = tmp_path / "linker"
    said = run("start", table, out, "--encoder", tiny_folder)
    assert "1 entities with 2 vectors" in said
    assert f"python -m spacy pel link {out} texts.txt --output linked.jsonl" in said
    assert (out / "config.cfg").is_file()
    assert "the last path is the folder to make" in run("start", table, code=1)


def test_average_writes_a_pipeline_and_names_the_next_command(
    run, tiny_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "averaged"
    average = ("average", tiny_folder, tiny_folder, out)
    assert "less than or equal to 1" in run(*average, "--share", 1.5, code=2)
    assert not out.exists()
    assert "python -m spacy pel kb embed KB" in run(*average)
    averaged, before = (spacy.load(f).get_pipe("proxy_linker") for f in (out, tiny_folder))
    assert averaged.retriever.fingerprint() == before.retriever.fingerprint()
    assert "exists" in run(*average, code=1)
    run(*average, "--force")


def test_doctor_prints_what_to_do_and_fails_if_something_is_broken(
    run, tiny_folder: Path, bare_kb: KnowledgeBase
) -> None:
    arguments = ["doctor", str(tiny_folder), "--kb", str(bare_kb.path)]
    result = CliRunner().invoke(pel, arguments)
    assert result.exit_code == 1
    output = " ".join(result.output.split())
    assert "vectors: none: nothing can be linked to the KB" in output
    assert "-> python -m spacy pel kb embed" in output
    result = CliRunner().invoke(pel, [*arguments, "--json"])
    assert result.exit_code == 1
    assert {"broken", "ok"} <= {finding["state"] for finding in json.loads(result.stdout)}
    assert "spacy: " in run("doctor")


TEXT = "The patient has MS and cephalgia."


def annotations(folder: Path) -> list:
    return [(ent.kb_id_, ent._.kb_candidates) for ent in spacy.load(folder)(TEXT).ents]


def test_it_links_alike_from_anywhere(
    run, tiny_folder: Path, tiny_kb: Path, tmp_path: Path
) -> None:
    kb = shutil.copytree(tiny_kb, tmp_path / "kb")
    expected = annotations(tiny_folder)
    assert "python -m spacy package" in run("assemble", tiny_folder, kb, tmp_path / "out")
    shutil.rmtree(kb)
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    assert annotations(moved) == expected
    assert spacy.load(moved).get_pipe("proxy_linker").kb.path == moved / "proxy_linker" / "kb"


def test_the_kb_of_a_stranger_cannot_overwrite_files_outside(
    run, tiny_folder: Path, tiny_kb: Path, tmp_path: Path
) -> None:
    kb = shutil.copytree(tiny_kb, tmp_path / "downloads" / "from" / "stranger" / "kb")
    victim, payload = tmp_path / ".bashrc", tmp_path / "downloads" / ".bashrc"
    victim.write_text("mine")
    payload.write_text("evil")
    content = {"bytes": 4, "sha256": hashlib.sha256(b"evil").hexdigest()}
    file = {"name": "../../../.bashrc", **content}
    edit_settings(kb, lambda settings: settings["vectors"].update(file=file))
    said = run("assemble", tiny_folder, kb, tmp_path / "out", code=1)
    assert "describes itself in no known way; do not use it" in said
    assert victim.read_text() == "mine"
    assert not (tmp_path / "out").exists()


def test_other_components_share_its_kb(
    run, tiny_nlp: Language, tiny_kb: Path, tmp_path: Path
) -> None:
    tiny_nlp.remove_pipe("entity_ruler")
    tiny_nlp.add_pipe("kb_matcher", config={"kb": str(tiny_kb), "label": "TERM"}, first=True)
    tiny_nlp.to_disk(tmp_path / "pipeline")
    kb = shutil.copytree(tiny_kb, tmp_path / "kb")
    run("assemble", tmp_path / "pipeline", kb, tmp_path / "out")
    shutil.rmtree(kb)
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    nlp = spacy.load(moved)
    assert [ent.text for ent in nlp(TEXT).ents] == ["MS", "cephalgia"]
    assert nlp.get_pipe("kb_matcher").kb.path == moved / "proxy_linker" / "kb"
    assert len(list(moved.rglob("*.sqlite"))) == 1


def two_linkers(tiny_folder: Path) -> Language:
    """The pipeline with a second linker behind the first, to the same KB."""
    nlp = spacy.load(tiny_folder)
    nlp.add_pipe("proxy_linker", name="second", config={"path": str(tiny_folder), "candidates": 1})
    return nlp


def test_two_linkers_of_one_kb_or_of_two(
    run, tiny_folder: Path, tiny_kb: Path, tmp_path: Path
) -> None:
    nlp = two_linkers(tiny_folder)
    nlp.to_disk(tmp_path / "pipeline")
    run("assemble", tmp_path / "pipeline", tiny_kb, tmp_path / "out")
    nlp.get_pipe("second").set_kb(build_kb([Entity("X1", "x")], tmp_path / "other").path)
    nlp.to_disk(tmp_path / "pipeline")
    said = run("assemble", tmp_path / "pipeline", tiny_kb, tmp_path / "out2", code=1)
    assert '"second" links to another KB' in said
    assert not (tmp_path / "out2").exists()


def test_only_a_pipeline_is_replaced_and_only_by_force(
    run, tiny_folder: Path, tiny_kb: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run("assemble", tiny_folder, tiny_kb, out)
    assert "replace it with --force" in run("assemble", tiny_folder, tiny_kb, out, code=1)
    (out / "stray").touch()
    run("assemble", out, out / "proxy_linker" / "kb", out, "--force")  # onto itself
    assert not (out / "stray").exists()
    assert annotations(out) == annotations(tiny_folder)
    (tmp_path / "mine").mkdir()
    output = run("assemble", tiny_folder, tiny_kb, tmp_path / "mine", "--force", code=1)
    assert "exists, and is no pipeline; choose a new folder" in output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]


@pytest.mark.parametrize("error, code", [(KeyboardInterrupt, 130), (OSError(28, "No space"), 1)])
def test_breaking_off_leaves_what_was_there(
    run, tiny_folder: Path, tiny_kb: Path, tmp_path: Path, monkeypatch, error, code: int
) -> None:
    out = tmp_path / "out"
    run("assemble", tiny_folder, tiny_kb, out)

    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("spacy_pel.kb.copies.write_checksums", broken)
    run("assemble", tiny_folder, tiny_kb, out, "--force", code=code)
    run("assemble", tiny_folder, tiny_kb, tmp_path / "new", code=code)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert annotations(out) == annotations(tiny_folder)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "test.pubtator"
    path.write_text(CORPUS, encoding="utf8")
    return path


@pytest.fixture
def metrics(run, tiny_folder: Path, corpus: Path) -> Path:
    path = corpus.with_name("on-test.json")
    run("evaluate", tiny_folder, corpus, "-o", path)
    return path


def test_it_says_what_it_is_and_what_was_measured(
    run, tiny_folder: Path, tiny_kb: Path, corpus: Path, metrics: Path, tmp_path: Path
) -> None:
    (tmp_path / "licences.txt").write_text("Names: CC0 1.0.\n")
    release = ("--name", "tiny_linker", "--version", "1.2.0", "--description", "A toy.")
    release += ("--license", "MIT", "--author", "Me", "--licenses", tmp_path / "licences.txt")
    out = tmp_path / "out"
    output = run("assemble", tiny_folder, tiny_kb, out, *release, "--metrics", metrics)
    assert "no notes on licences" not in output

    meta = json.loads((out / "meta.json").read_text("utf8"))
    stated = [meta[key] for key in ("name", "version", "description", "license", "author")]
    assert stated == ["tiny_linker", "1.2.0", "A toy.", "MIT", "Me"]
    checksum = KnowledgeBase(tiny_kb).settings["checksum"]
    assert meta["sources"] == [{"name": "tiny"}]
    assert meta["knowledge_base"]["checksum"] == checksum
    assert meta["knowledge_base"]["counts"]["entities"] == 7
    measured = json.loads(metrics.read_text("utf8"))
    figures = meta["performance"]["on-test"]
    assert figures["recall@1"] == pytest.approx(measured["recall@1"])  # spaCy keeps ten digits
    assert "curve" not in figures["nil"]
    assert str(tiny_kb) not in json.dumps(meta)

    card = (out / "README.md").read_text("utf8")
    assert card.startswith("# xx_tiny_linker 1.2.0\n\nA toy.\n")
    assert checksum in card and "| sources and releases | tiny |" in card
    cells = [f"{100 * measured['recall@1'][group]:.1f}" for group in ("all", "in_kb")]
    (row,) = re.findall(r"^\| recall@1 .*$", card, re.M)
    assert row.split()[3:7:2] == cells
    assert f"`python -m spacy pel evaluate {tiny_folder} {corpus}`" in card
    assert "every mention gets one of them" in card and "come from `entity_ruler`" in card
    assert card.endswith("## Licences\n\nNames: CC0 1.0.\n")
    assert (out / "LICENSES_SOURCES").read_text() == "Names: CC0 1.0.\n"


def test_what_is_not_said_is_missed(run, tiny_nlp: Language, tiny_kb: Path, tmp_path: Path) -> None:
    tiny_nlp.remove_pipe("entity_ruler")
    tiny_nlp.meta.update(name="mine", description="As before.", performance={"tag_acc": 0.9})
    linker = tiny_nlp.get_pipe("proxy_linker")
    linker.nil_threshold, linker.calibration = 0.25, Calibration(1.0, 0.0, 0)
    reader = {"@readers": "spacy-pel.PubTatorCorpus.v1", "path": "${paths.train}"}
    tiny_nlp.config["corpora"]["train"] = reader
    tiny_nlp.config["paths"]["train"] = "train.pubtator"
    tiny_nlp.to_disk(tmp_path / "pipeline")
    output = run("assemble", tmp_path / "pipeline", tiny_kb, tmp_path / "out")
    assert "It has no notes on licences: before you pass it on, give some with --licenses" in output
    meta = json.loads((tmp_path / "out" / "meta.json").read_text("utf8"))
    assert meta["performance"] == {"tag_acc": 0.9}
    card = (tmp_path / "out" / "README.md").read_text("utf8")
    assert card.startswith("# xx_mine 0.0.0\n\nAs before.\n") and "None were given." in card
    assert "It finds no mentions: they must be given" in card
    assert "below 0.250 is NIL" in card and "fitted on the texts" in card
    assert '@readers = "spacy-pel.PubTatorCorpus.v1"\npath = "train.pubtator"' in card
    assert not (tmp_path / "out" / "LICENSES_SOURCES").exists()


def test_figures_of_another_linker_are_refused(
    run, tiny_folder: Path, tiny_nlp: Language, tiny_kb: Path, metrics: Path, tmp_path: Path
) -> None:
    def refusal(pipeline: Path, kb: Path = tiny_kb) -> str:
        return run("assemble", pipeline, kb, tmp_path / "out", "--metrics", metrics, code=1)

    linker = tiny_nlp.get_pipe("proxy_linker")
    linker.nil_threshold = 0.5
    tiny_nlp.to_disk(tmp_path / "calibrated")
    output = refusal(tmp_path / "calibrated")
    assert "on-test.json: has figures of another NIL threshold than those of the" in output
    assert "evaluate it again: python -m spacy pel evaluate" in output

    other = build_kb(ENTITIES[:6], tmp_path / "other").path
    embed_kb(other, linker)
    assert "figures of another knowledge base than" in refusal(tiny_folder, other)

    before = json.loads(metrics.read_text("utf8"))
    del before["linker"]
    metrics.write_text(json.dumps(before))
    assert "does not say which linker it is for; make it again" in refusal(tiny_folder)
    metrics.write_text("no JSON")
    assert "on-test.json: is not JSON" in refusal(tiny_folder)
    metrics.unlink()
    assert "on-test.json: No such file" in refusal(tiny_folder)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "option, value", [("--name", "a-b"), ("--name", "a__b"), ("--version", "one")]
)
def test_what_no_package_can_be_called(
    run, tiny_folder: Path, tiny_kb: Path, tmp_path: Path, option: str, value: str
) -> None:
    output = run("assemble", tiny_folder, tiny_kb, tmp_path / "out", option, value, code=1)
    assert f"Error: {option} {value}: " in output
    assert not (tmp_path / "out").exists()
