"""kb learn."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy
from spacy.tokens import Span

from spacy_pel.kb import KnowledgeBase


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "train.pubtator"
    path.write_text(
        "1|t|Renal failure (RF) and cephalea.\n1|a|RF was treated.\n"
        "1\t0\t5\tRenal\tAnatomy\tC07\n"
        "1\t15\t17\tRF\tDisease\tC06\n"
        "1\t23\t31\tcephalea\tDisease\tC06\n"
        "1\t33\t35\tRF\tDisease\tC06\n\n",
        "utf8",
    )
    return path


def test_a_linker_finds_the_names_of_annotations(
    run, bare_kb: KnowledgeBase, tiny_folder: Path, corpus: Path
) -> None:
    folder = bare_kb.path
    run("kb", "embed", folder, tiny_folder)
    assert "--pipeline PIPELINE" in run("kb", "learn", folder, corpus, code=1)
    output = run("kb", "learn", folder, corpus, "--pipeline", tiny_folder)
    assert "4 new names in 4 mentions" in output and "2 updated" in output
    kb = KnowledgeBase.open(folder)
    assert kb["C07"].aliases == ("Renal",)
    assert kb["C06"].aliases == ("cephalgia", "head pain", "RF", "cephalea", "Renal failure")
    vectors, _ = kb.rows([kb.number("C06")])
    assert len(vectors) == 6
    nlp = spacy.load(tiny_folder)
    nlp.get_pipe("proxy_linker").set_kb(folder)
    doc = nlp.make_doc("cephalea")
    doc.ents = [Span(doc, 0, 1, label="MENTION")]
    assert nlp.get_pipe("proxy_linker")(doc).ents[0]._.kb_id in kb
    again = run("kb", "learn", folder, corpus, "--pipeline", tiny_folder)
    assert "0 new names" in again and "nothing changed" in again


def test_without_vectors_no_pipeline_is_needed(run, bare_kb: KnowledgeBase, corpus: Path) -> None:
    assert "4 new names in 4 mentions" in run("kb", "learn", bare_kb.path, corpus)
    assert "train.pubtator" in str(KnowledgeBase.open(bare_kb.path).settings["sources"])


def test_errors(run, bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    path = tmp_path / "other.pubtator"
    path.write_text("1|t|Gout.\n1|a|\n1\t0\t4\tGout\tDisease\tZ9\n\n", "utf8")
    output = run("kb", "learn", bare_kb.path, path, code=1)
    assert "use the same identifiers" in output
    assert "none.pubtator" in run("kb", "learn", bare_kb.path, tmp_path / "none.pubtator", code=1)
    assert "kb build" in run("kb", "learn", tmp_path / "none", path, code=1)


def test_mentions_are_learnt_shown_and_forgotten(
    run, bare_kb: KnowledgeBase, tiny_folder: Path, corpus: Path
) -> None:
    folder = bare_kb.path
    run("kb", "embed", folder, tiny_folder)
    assert "--pipeline PIPELINE" in run("kb", "learn", folder, corpus, "--mentions", code=1)
    output = run("kb", "learn", folder, corpus, "--mentions", "--pipeline", tiny_folder)
    assert "4 of 4 mentions of 2 entities learnt" in output
    source = f"{corpus.parent.name}/{corpus.name}"
    assert f"{source}: 4" in run("kb", "info", folder)
    assert "has learnt no mentions from" in run("kb", "forget", folder, "--source", "x", code=1)
    assert "4 mentions" in run("kb", "forget", folder, "--source", source)
    corpus.write_text(
        f"2|t|RF.\n2|a|\n2\t0\t2\tRF\tDisease\tC06\n\n{corpus.read_text('utf8')}", "utf8"
    )
    learnt = ("kb", "learn", folder, corpus, "--mentions", "--pipeline", tiny_folder)
    assert "1 of 1 mentions of 1 entities learnt" in run(*learnt, "--limit", "1")
    assert "1 mentions" in run("kb", "forget", folder, "--source", source)
    assert KnowledgeBase.open(folder).settings["mentions"] is None
