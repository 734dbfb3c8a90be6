"""Mining of files: the same rows with any number of processes, and after any interruption."""

from __future__ import annotations

from pathlib import Path
from random import Random

import duckdb
import pytest
import spacy

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.errors import PelError
from spacy_pel.jobs import mine as module
from spacy_pel.jobs.document_blocks import LinkProgress
from spacy_pel.jobs.mine import mine_mentions
from spacy_pel.jobs.sampled_mentions import MentionSearch
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.name_finder import NameFinder

NAMES = ["aspirin", "kidney", "headache", "head pain", "right atrium", "MS"]


class Told(LinkProgress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)


@pytest.fixture
def search(bare_kb: KnowledgeBase) -> MentionSearch:
    return MentionSearch(bare_kb, NameFinder.of(bare_kb), aliases=True, per_entity=4)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Forty documents, three of which make a part."""
    monkeypatch.setattr(module, "DOCUMENTS_PER_BLOCK", 3)
    choices = Random(0)
    lines = [f"Case {n}: " + " and ".join(choices.choices(NAMES, k=3)) for n in range(40)]
    path = tmp_path / "notes.txt"
    path.write_text("\n".join(lines), encoding="utf8")
    return path


def rows_in(path: Path) -> list[tuple]:
    return duckdb.sql(f"SELECT entity, id, \"offset\", name, text FROM '{path}'").fetchall()


def test_a_sample_of_all_mentions(search: MentionSearch, notes: Path) -> None:
    everything, few = notes.with_name("all.parquet"), notes.with_name("few.parquet")
    result = mine_mentions(search._replace(per_entity=1000), [str(notes)], everything)
    texts = notes.read_text("utf8").split("\n")
    expected = sorted(
        (f"line {n}", at)
        for n, text in enumerate(texts, start=1)
        for name in NAMES[:-1]  # two entities are called MS
        for at in range(len(text))
        if text.startswith(name, at)
    )
    rows = rows_in(everything)
    assert sorted((id, at) for _, id, at, *_ in rows) == expected
    assert (result.documents, result.found, result.kept) == (40, len(expected), len(expected))
    # A part keeps four of an entity, and all parts together the same four as one part would.
    assert mine_mentions(search, [str(notes)], few).entities == 4
    entities = list(dict.fromkeys(entity for entity, *_ in rows))
    assert rows_in(few) == [
        row for entity in entities for row in [r for r in rows if r[0] == entity][:4]
    ]


def test_mentions_are_a_corpus(search: MentionSearch, notes: Path) -> None:
    out = notes.with_name("mentions.parquet")
    mine_mentions(search, [str(notes)], out)
    examples = list(open_corpus(out)(spacy.blank("xx")))
    spans = [ent for example in examples for ent in example.reference.ents]
    assert [(span.kb_id_, span.text) for span in spans] == [
        (entity, name) for entity, _, _, name, _ in rows_in(out)
    ]


def test_any_number_of_processes(search: MentionSearch, notes: Path) -> None:
    one, two = notes.with_name("1.parquet"), notes.with_name("2.parquet")
    assert mine_mentions(search, [str(notes)], one) == mine_mentions(
        search, [str(notes)], two, n_process=2
    )
    assert one.read_bytes() == two.read_bytes()


def test_a_run_that_was_interrupted_goes_on(search: MentionSearch, notes: Path) -> None:
    class Interrupting(LinkProgress):
        documents = 0

        def linked(self, n_bytes: float) -> None:
            self.documents += 1
            if self.documents == 20:
                raise KeyboardInterrupt

    whole, broken = notes.with_name("1.parquet"), notes.with_name("2.parquet")
    mine_mentions(search, [str(notes)], whole)
    with pytest.raises(KeyboardInterrupt):
        mine_mentions(search, [str(notes)], broken, progress=Interrupting())
    assert not broken.exists()
    told = Told()
    mine_mentions(search, [str(notes)], broken, progress=told)
    assert told.lines == ["Going on after 21 documents that were searched before"]
    assert broken.read_bytes() == whole.read_bytes()


def test_a_change_of_the_input_begins_anew_from_there(search: MentionSearch, notes: Path) -> None:
    class Interrupting(LinkProgress):
        documents = 0

        def linked(self, n_bytes: float) -> None:
            self.documents += 1
            if self.documents == 30:
                raise KeyboardInterrupt

    out, fresh = notes.with_name("1.parquet"), notes.with_name("2.parquet")
    with pytest.raises(KeyboardInterrupt):
        mine_mentions(search, [str(notes)], out, progress=Interrupting())
    lines = notes.read_text("utf8").split("\n")
    lines[4] = "Nothing at all."
    notes.write_text("\n".join(lines), encoding="utf8")
    told = Told()
    mine_mentions(search, [str(notes)], out, progress=told)
    assert told.lines[0] == "The input has changed from about document 4 on"
    mine_mentions(search, [str(notes)], fresh)
    assert out.read_bytes() == fresh.read_bytes()


def test_nothing_is_found(search: MentionSearch, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Nothing.\n")
    result = mine_mentions(search, [str(tmp_path / "a.txt")], tmp_path / "a.parquet")
    assert (result.documents, result.kept, result.judged) == (1, 0, 0)
    assert rows_in(tmp_path / "a.parquet") == []


def test_what_is_refused(search: MentionSearch, notes: Path) -> None:
    with pytest.raises(PelError, match="mentions are written as Parquet; end its name in .parquet"):
        mine_mentions(search, [str(notes)], notes.with_name("a.jsonl"))
    with pytest.raises(PelError, match="is what is read, or in its folder"):
        mine_mentions(search, [str(notes.parent)], notes.with_name("a.parquet"))
    with pytest.raises(PelError, match="no such file"):
        mine_mentions(search, [str(notes), "nowhere.txt"], notes.with_name("a.parquet"))
