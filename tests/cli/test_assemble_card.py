"""What an assembled pipeline says of itself: its meta.json and its model card."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.jobs.embed import embed_kb
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.linking.calibration import Calibration

from ..conftest import ENTITIES

CORPUS = """\
1|t|Aspirin relieves headache and RA.
1|a|MS is not measured.
1\t0\t7\tAspirin\tTERM\tC05
1\t17\t25\theadache\tTERM\tC06
1\t30\t32\tRA\tTERM\tC03
1\t34\t36\tMS\tTERM\tC98

"""


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


def read_card(folder: Path) -> str:
    return (folder / "README.md").read_text("utf8")


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

    card = read_card(out)
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
    tiny_nlp.to_disk(tmp_path / "pipeline")
    output = run("assemble", tmp_path / "pipeline", tiny_kb, tmp_path / "out")
    assert "It has no notes on licences: before you pass it on, give some with --licenses" in output
    meta = json.loads((tmp_path / "out" / "meta.json").read_text("utf8"))
    assert meta["performance"] == {"tag_acc": 0.9}
    card = read_card(tmp_path / "out")
    assert card.startswith("# xx_mine 0.0.0\n\nAs before.\n") and "None were given." in card
    assert "It finds no mentions: they must be given" in card
    assert "below 0.250 is NIL" in card and "fitted on the texts" in card
    assert not (tmp_path / "out" / "LICENSES_SOURCES").exists()


def test_the_corpus_it_was_trained_on(
    run, tiny_nlp: Language, tiny_kb: Path, tmp_path: Path
) -> None:
    reader = {"@readers": "spacy-pel.PubTatorCorpus.v1", "path": "${paths.train}"}
    tiny_nlp.config["corpora"]["train"] = reader
    tiny_nlp.config["paths"]["train"] = "train.pubtator"
    tiny_nlp.to_disk(tmp_path / "pipeline")
    run("assemble", tmp_path / "pipeline", tiny_kb, tmp_path / "out")
    assert '@readers = "spacy-pel.PubTatorCorpus.v1"\npath = "train.pubtator"' in read_card(
        tmp_path / "out"
    )


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
