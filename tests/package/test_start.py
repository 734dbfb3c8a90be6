from pathlib import Path

import pytest
import spacy

from spacy_pel.batch.document_blocks import NoBar
from spacy_pel.errors import PelError
from spacy_pel.models.architectures import fingerprint
from spacy_pel.package import start as task
from spacy_pel.package.start import start

from ..conftest import write_text
from ..rankings import ranking_by_score

TERM = '\n[Term]\nid: {}\nname: {}\nsynonym: "{}" EXACT []\n'
OBO = TERM.format("T:1", "multiple sclerosis", "MS") + TERM.format("T:2", "headache", "cephalgia")


@pytest.fixture
def obo(tmp_path: Path) -> Path:
    return write_text(tmp_path / "tiny.obo", OBO)


def links(pipeline: Path) -> list[tuple[str, str]]:
    doc = spacy.load(pipeline)("Her multiple sclerosis (MS) began with cephalgia.")
    return [(ent.text, ent.kb_id_) for ent in doc.ents]


def test_it_links(obo: Path, bert: Path, tmp_path: Path) -> None:
    made = start([obo], tmp_path / "out", encoder=str(bert))
    assert len(made) == 2 and made.index_unit == "name"
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    obo.unlink()
    assert links(moved) == [("multiple sclerosis", "T:1"), ("MS", "T:1"), ("cephalgia", "T:2")]


def test_a_trained_pipeline_gives_its_encoders_and_the_kb_what_is_fitted(
    obo: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    calibrated = spacy.load(tiny_folder)
    old = calibrated.get_pipe("proxy_linker")
    old.nil_threshold, old.ranking = 0.5, ranking_by_score()
    calibrated.to_disk(tmp_path / "calibrated")
    start([obo], tmp_path / "out", encoder=str(tmp_path / "calibrated"))
    linker = spacy.load(tmp_path / "out").get_pipe("proxy_linker")
    assert fingerprint(linker.retriever) == fingerprint(old.retriever)
    assert linker.runtime.name == "auto"
    assert linker.nil_threshold is linker.ranking is None  # two entities are not enough to fit to
    some = "".join(TERM.format(f"T:{n}", f"pain of kind {n}", f"ache {n}") for n in range(3, 120))
    obo.write_text(OBO + some)
    start([obo], tmp_path / "out", encoder=str(tmp_path / "calibrated"), force=True)
    linker = spacy.load(tmp_path / "out").get_pipe("proxy_linker")
    assert linker.ranking.labels == {"ENTITY": 119} and linker.nil_threshold != 0.5
    assert len(linker.kb) == 119


def test_it_links_to_a_part_of_an_ontology(obo: Path, bert: Path, tmp_path: Path) -> None:
    obo.write_text(OBO + TERM.format("T:3", "relapse", "flare") + "is_a: T:1\n")
    made = start([obo], tmp_path / "out", encoder=str(bert), below=["T:1"])
    assert [entity.concept_id for entity in made] == ["T:1", "T:3"]
    with pytest.raises(PelError, match="--below T:9: no entity of the sources"):
        start([obo], tmp_path / "other", encoder=str(bert), below=["T:9"])


@pytest.mark.parametrize("root, n_linked", [("All", 80), ("sign", 83)])
def test_an_ontology_is_about_the_branch_with_nearly_all_entities(
    root: str, n_linked: int, obo: Path, bert: Path, tmp_path: Path
) -> None:
    below = "is_a: T:{}\n"
    terms = [TERM.format("T:1", root, "any"), TERM.format("T:2", "sign of disease", "signs")]
    terms += [below.format(1), TERM.format("T:3", "severity", "degree"), below.format(1)]
    for n in range(4, 83):
        terms += [TERM.format(f"T:{n}", f"pain of kind {n}", f"ache {n}"), below.format(2)]
    terms += [TERM.format("T:83", "severe", "grave"), below.format(3)]
    obo.write_text("".join(terms))
    made = start([obo], tmp_path / "out", encoder=str(bert))
    assert len(made) == n_linked and ("T:83" in made) == (root == "sign")


def test_it_leaves_out_what_stands_beside_the_main_tree(
    obo: Path, bert: Path, tmp_path: Path
) -> None:
    below = [TERM.format(f"T:{n}", f"pain {n}", f"ache {n}") + "is_a: T:1\n" for n in range(9, 99)]
    rare = (
        TERM.format("T:3", "frequency", "often"),
        TERM.format("T:4", "rare", "seldom") + "is_a: T:3\n",
    )
    obo.write_text(OBO + "\n".join([*below, *rare]))
    made = start([obo], tmp_path / "out", encoder=str(bert))
    assert len(made) == 2 + len(below) and "T:2" in made  # alone, and in no other tree
    assert "T:4" in start([obo], tmp_path / "all", encoder=str(bert), below=["T:1", "T:3"])


def test_an_interrupted_one_goes_on(
    obo: Path, bert: Path, tmp_path: Path, monkeypatch, caplog
) -> None:
    class Stopping(NoBar):
        def update(self, n: int) -> None:
            raise KeyboardInterrupt

    caplog.set_level("INFO", "spacy_pel.batch")
    monkeypatch.setattr("spacy_pel.text.entity_texts.CHUNK", 1)
    with pytest.raises(KeyboardInterrupt):
        start([obo], tmp_path / "out", encoder=str(bert), encoding=Stopping)
    assert not (tmp_path / "out").exists()
    read: list[str] = []

    def reading(entities, name):
        read.append(name)
        return entities

    with monkeypatch.context() as failing, pytest.raises(ZeroDivisionError):
        failing.setattr(task, "assemble", lambda *arguments: 1 / 0)
        start([obo], tmp_path / "out", encoder=str(bert), reading=reading)
    assert caplog.messages == ["resuming: 1 of 2 blocks done"] and read == ["names"]
    kept = {"encoding": Stopping, "reading": reading, "encoder": str(bert)}
    obo.write_text(OBO + TERM.format("T:3", "relapse", "flare"))  # another ontology: from the start
    with pytest.raises(KeyboardInterrupt):
        start([obo], tmp_path / "out", **kept)
    assert read == ["names", "tiny.obo"]
    start([obo], tmp_path / "out", encoder=str(bert), reading=reading)
    assert read == ["names", "tiny.obo", "names"] and not (tmp_path / "out.parts").exists()
    assert len(list((tmp_path / "out" / "proxy_linker" / "kb").glob(".names-*"))) == 1


def test_without_an_encoder_it_says_what_to_give(obo: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(task, "RELEASED", "en_that_is_not_installed")
    with pytest.raises(PelError, match="name one with --encoder"):
        start([obo], tmp_path / "out")
    with pytest.raises(PelError, match="cannot load the encoder"):
        start([obo], tmp_path / "out", encoder=str(tmp_path / "nothing"))
