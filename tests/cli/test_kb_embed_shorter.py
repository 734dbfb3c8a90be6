"""kb embed --dim and --alike, and what goes on with the KB that they leave."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Span

from spacy_pel.jobs.embed import is_embedded
from spacy_pel.kb import KnowledgeBase

from .link_examples import TEXT


@pytest.fixture
def embedded(tiny_kb: Path, tmp_path: Path) -> Path:
    """A KB of its own, with 17 vectors of 32 dimensions."""
    return Path(shutil.copytree(tiny_kb, tmp_path / "embedded"))


def test_the_pipeline_goes_on_with_the_reduced_kb(run, embedded: Path, tiny_folder: Path) -> None:
    kb = embedded
    output = run("kb", "embed", kb, tiny_folder, "--dim", 12)
    assert "stored in 12 numbers, with" in output and "17 vectors of 32 dimensions" in output
    info = json.loads(run("kb", "info", kb, "--json"))
    assert (info["dim"], info["stored_dim"], info["rows"]) == (32, 12, 17)
    nlp = spacy.load(tiny_folder)
    linker = nlp.get_pipe("proxy_linker")
    linker.set_kb(kb)
    doc = nlp.make_doc(TEXT)
    doc.ents = [Span(doc, 0, 2, label="MENTION")]
    nlp.get_pipe("proxy_linker")(doc)
    assert doc.ents[0]._.kb_id in KnowledgeBase.open(kb)
    assert not is_embedded(KnowledgeBase.open(kb), linker)
    assert "Embedded" in run("kb", "embed", kb, tiny_folder)  # whole ones again
    assert is_embedded(KnowledgeBase.open(kb), linker)


def test_reduced_vectors_are_not_re_used_for_whole_ones(
    run, bare_kb: KnowledgeBase, embedded: Path, tiny_folder: Path
) -> None:
    run("kb", "embed", embedded, tiny_folder, "--dim", 12)
    output = run("kb", "embed", bare_kb.path, tiny_folder, "--reuse", embedded, code=1)
    assert "its vectors were reduced" in output


def test_names_that_are_alike(run, embedded: Path, tiny_folder: Path) -> None:
    run("kb", "embed", embedded, tiny_folder, "--index", "approximate")
    assert json.loads(run("kb", "info", embedded, "--json"))["codes"] == 17
    run("kb", "embed", embedded, tiny_folder, "--alike", 0.01)
    info = json.loads(run("kb", "info", embedded, "--json"))
    assert info["codes"] < 17 == info["rows"] and info["stored_dim"] == info["dim"]


def test_errors(run, embedded: Path, tiny_folder: Path) -> None:
    def refused(*options) -> str:
        return run("kb", "embed", embedded, tiny_folder, *options, code=1)

    assert "without --alike" in refused("--dim", 12, "--alike", 0.9)
    assert "choose from 1 to 31 of them, not 33" in refused("--dim", 33)
