"""A KB is changed by a source file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.jobs.change_kb import change_from_source, read_ids
from spacy_pel.jobs.embed import embed_kb
from spacy_pel.kb import Entity, KnowledgeBase


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "new.jsonl"
    entities = [Entity("C07", "Niere"), Entity("C08", "gout", ("podagra",))]
    path.write_text("\n".join(json.dumps(entity._asdict()) for entity in entities), "utf8")
    return path


def test_each_change_reads_the_source_and_ids_from_lines(
    bare_kb: KnowledgeBase, source: Path
) -> None:
    read: list[None] = []
    counts = change_from_source("merge", bare_kb.path, source, progress=lambda: read.append(None))
    assert (counts.added, counts.updated, len(read)) == (1, 1, 2)
    assert change_from_source("update", bare_kb.path, source).updated == 1
    kb = KnowledgeBase.open(bare_kb.path)
    assert kb["C07"].canonical_name == "Niere"
    assert kb.settings["sources"][-1] == str(source)
    with pytest.raises(PelError, match="C07"):
        change_from_source("add", bare_kb.path, source)
    path = source.with_name("ids.txt")
    path.write_text("C01\n\n C02 \n")
    assert read_ids(path) == ["C01", "C02"]


def test_new_entities_are_encoded(bare_kb: KnowledgeBase, tiny_nlp: Language, source: Path) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    embed_kb(bare_kb.path, linker)
    with pytest.raises(PelError, match="has vectors, so new entities need vectors too"):
        change_from_source("merge", bare_kb.path, source)
    change_from_source("merge", bare_kb.path, source, linker=linker)
    kb = KnowledgeBase.open(bare_kb.path)
    vectors, _ = kb.rows([kb.number("C08")])
    assert len(vectors) == 2
