import json
import re
import shutil
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from typer.testing import CliRunner

from spacy_pel.batch.embed import embed_kb
from spacy_pel.cli import pel
from spacy_pel.kb import KnowledgeBase, build_kb

from ..calibration.corpora import CORPUS
from ..conftest import ENTITIES
from ..rankings import ranking_by_score


def test_start_makes_a_pipeline_and_names_the_next_command(run, tiny_folder, tmp_path) -> None:
    table, out = tmp_path / "terms.csv", tmp_path / "linker"
    table.write_text("concept_id,canonical_name,aliases\nT1,headache,cephalgia\n")
    said = run("start", table, out, "--encoder", tiny_folder)
    assert "1 entities with 2 vectors" in said and (out / "config.cfg").is_file()
    assert f"python -m spacy pel link {out} texts.txt --output linked.jsonl" in said


def test_doctor_prints_what_to_do_and_fails_if_something_is_broken(run, tiny_folder, bare_kb):
    arguments = ["doctor", str(tiny_folder), "--kb", str(bare_kb.path)]
    result = CliRunner().invoke(pel, arguments)
    output = " ".join(result.output.split())
    assert result.exit_code == 1
    assert "vectors: none: nothing can be linked to the KB" in output
    assert "-> python -m spacy pel kb embed" in output
    assert "faiss: " in run("doctor")


TEXT = "The patient has MS and cephalgia."


def annotations(folder: Path) -> list:
    return [(ent.kb_id_, ent._.kb_candidates) for ent in spacy.load(folder)(TEXT).ents]


def test_it_links_alike_from_anywhere(run, tiny_nlp, tiny_kb, tmp_path) -> None:
    """So do other components, which share its KB."""
    tiny_nlp.remove_pipe("entity_ruler")
    tiny_nlp.add_pipe("kb_matcher", config={"kb": str(tiny_kb), "label": "TERM"}, first=True)
    tiny_nlp.to_disk(tmp_path / "pipeline")
    expected = annotations(tmp_path / "pipeline")
    kb = shutil.copytree(tiny_kb, tmp_path / "kb")
    assert "python -m spacy package" in run("assemble", tmp_path / "pipeline", kb, tmp_path / "out")
    shutil.rmtree(kb)
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    assert len(expected) == 2 and annotations(moved) == expected
    for name in ("kb_matcher", "proxy_linker"):
        assert spacy.load(moved).get_pipe(name).kb.path == moved / "proxy_linker" / "kb"
    assert len(list(moved.rglob("*.sqlite"))) == 1


def test_only_a_pipeline_is_replaced_and_only_by_force(
    run, tiny_folder: Path, tiny_kb: Path, tmp_path: Path, monkeypatch
) -> None:
    out = tmp_path / "out"
    run("assemble", tiny_folder, tiny_kb, out)
    assert "replace it with --force" in run("assemble", tiny_folder, tiny_kb, out, code=1)
    (out / "stray").touch()
    run("assemble", out, out / "proxy_linker" / "kb", out, "--force")  # onto itself
    assert not (out / "stray").exists()
    (tmp_path / "mine").mkdir()
    output = run("assemble", tiny_folder, tiny_kb, tmp_path / "mine", "--force", code=1)
    assert "exists, and is no pipeline; choose a new folder" in output

    def broken(*_: object) -> None:
        raise OSError(28, "No space")

    monkeypatch.setattr("spacy_pel.kb.describe.write_checksums", broken)
    run("assemble", tiny_folder, tiny_kb, out, "--force", code=1)
    run("assemble", tiny_folder, tiny_kb, tmp_path / "new", code=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]
    assert annotations(out) == annotations(tiny_folder)


@pytest.fixture
def metrics(run, tiny_folder: Path, tmp_path: Path) -> Path:
    corpus, path = tmp_path / "test.pubtator", tmp_path / "on-test.json"
    corpus.write_text(CORPUS, encoding="utf8")
    run("evaluate", tiny_folder, corpus, "-o", path)
    return path


def test_it_says_what_it_is_and_what_was_measured(run, tiny_folder, tiny_kb, metrics, tmp_path):
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
    measured = json.loads(metrics.read_text("utf8"))
    figures = meta["performance"]["on-test"]
    assert figures["recall@1"] == pytest.approx(measured["recall@1"])  # spaCy keeps ten digits
    assert str(tiny_kb) not in json.dumps(meta)

    card = (out / "README.md").read_text("utf8")
    assert card.startswith("# xx_tiny_linker 1.2.0\n\nA toy.\n")
    assert checksum in card and "| **Sources** | tiny |" in card
    cells = [f"{100 * measured['recall@1'][group]:.1f}" for group in ("all", "in_kb")]
    (row,) = re.findall(r"^\| recall@1 .*$", card, re.M)
    assert row.split()[3:7:2] == cells
    corpus = metrics.with_name("test.pubtator")
    assert f"`python -m spacy pel evaluate {tiny_folder} {corpus}`" in card
    assert "every mention gets one of them" in card and "mentions of `entity_ruler`" in card
    assert card.endswith("## Licences\n\nNames: CC0 1.0.\n")
    assert (out / "LICENSES_SOURCES").read_text() == "Names: CC0 1.0.\n"


def test_what_is_not_said_is_missed(run, tiny_nlp: Language, tiny_kb: Path, tmp_path: Path) -> None:
    tiny_nlp.remove_pipe("entity_ruler")
    tiny_nlp.meta.update(name="mine", description="As before.", performance={"tag_acc": 0.9})
    linker = tiny_nlp.get_pipe("proxy_linker")
    linker.nil_threshold, linker.ranking = 0.25, ranking_by_score()
    tiny_nlp.to_disk(tmp_path / "pipeline")
    output = run("assemble", tmp_path / "pipeline", tiny_kb, tmp_path / "out")
    assert (
        "The pipeline has no notes on licences; before you publish it, add them with --licenses"
        in output
    )
    meta = json.loads((tmp_path / "out" / "meta.json").read_text("utf8"))
    assert meta["performance"] == {"tag_acc": 0.9}
    card = (tmp_path / "out" / "README.md").read_text("utf8")
    assert card.startswith("# xx_mine 0.0.0\n\nAs before.\n") and "No figures." in card
    assert "It finds no mentions. Set them" in card
    assert "below 0.250 is NIL" in card and "fitted to mentions" in card
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
    assert "on-test.json: has figures of another NIL threshold than the pipeline's" in output
    assert "evaluate it again: python -m spacy pel evaluate" in output

    other = build_kb(ENTITIES[:6], tmp_path / "other").path
    embed_kb(other, linker)
    assert "figures of another knowledge base than" in refusal(tiny_folder, other)

    twice = ("--metrics", metrics, "--metrics", metrics)
    output = run("assemble", tiny_folder, tiny_kb, tmp_path / "out", *twice, code=1)
    assert "is the second file" in output
    metrics.write_text("{}")
    assert "on-test.json: has no metrics of linking" in refusal(tiny_folder)
    assert not (tmp_path / "out").exists()


def test_what_no_package_can_be_called(run, tiny_folder, tiny_kb, tmp_path) -> None:
    for option in (("--name", "a-b"), ("--name", "a__b"), ("--version", "one")):
        output = run("assemble", tiny_folder, tiny_kb, tmp_path / "out", *option, code=1)
        assert f"Error: {' '.join(option)}: " in output
    assert not (tmp_path / "out").exists()
