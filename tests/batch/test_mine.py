import json
import re
from pathlib import Path
from random import Random

import duckdb
import pytest
import spacy

from spacy_pel.batch import mine as module
from spacy_pel.batch.document_blocks import OnError
from spacy_pel.batch.mine import MentionSearch, mine_mentions
from spacy_pel.corpora import open_documents
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase

from ..conftest import write_text
from .conftest import Told

NAMES = ["aspirin", "kidney", "headache", "head pain", "right atrium", "MS"]


@pytest.fixture
def search(bare_kb: KnowledgeBase) -> MentionSearch:
    return MentionSearch(bare_kb, bare_kb.name_finder(), aliases=True, per_entity=4)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Forty documents, three of which make a part."""
    monkeypatch.setattr(module, "DOCUMENTS_PER_BLOCK", 3)
    choices = Random(0)
    lines = [f"Case {n}: " + " and ".join(choices.choices(NAMES, k=3)) for n in range(40)]
    return write_text(tmp_path / "notes.txt", "\n".join(lines))


def rows_in(path: Path) -> list[tuple]:
    return duckdb.sql(f"SELECT entity, id, \"offset\", name, text FROM '{path}'").fetchall()


def test_a_sample_of_all_mentions(search: MentionSearch, notes: Path) -> None:
    everything, few = notes.with_name("all.parquet"), notes.with_name("few.parquet")
    result = mine_mentions(search._replace(per_entity=1000), [str(notes)], everything)
    texts = notes.read_text("utf8").split("\n")
    clear = "|".join(NAMES[:-1])  # two entities are called MS
    found = ((n, re.finditer(clear, text)) for n, text in enumerate(texts, start=1))
    expected = sorted((f"line {n}", match.start()) for n, matches in found for match in matches)
    rows = rows_in(everything)
    assert sorted((id, at) for _, id, at, *_ in rows) == expected
    assert (result.documents, result.found, result.kept) == (40, len(expected), len(expected))
    # A part keeps four of an entity, and all parts together the same four as one part would.
    assert mine_mentions(search, [str(notes)], few).entities == 4
    entities = list(dict.fromkeys(entity for entity, *_ in rows))
    first_four = ([row for row in rows if row[0] == entity][:4] for entity in entities)
    assert rows_in(few) == sum(first_four, [])
    other, names = notes.with_name("other.parquet"), [name for *_, name, _ in rows]
    preferred = mine_mentions(search._replace(aliases=False), [str(notes)], other)
    assert preferred.found == len(names) - names.count("head pain") < len(names)


def test_mentions_are_a_corpus_made_by_any_number_of_processes(search, notes) -> None:
    one, two = notes.with_name("1.parquet"), notes.with_name("2.parquet")
    made = mine_mentions(search, [str(notes)], one)
    assert mine_mentions(search, [str(notes)], two, n_process=2) == made
    assert one.read_bytes() == two.read_bytes()
    examples = list(open_corpus(one)(spacy.blank("xx")))
    spans = [ent for example in examples for ent in example.reference.ents]
    expected = [(entity, name) for entity, _, _, name, _ in rows_in(one)]
    assert [(span.kb_id_, span.text) for span in spans] == expected


def test_a_run_that_was_interrupted_goes_on(search: MentionSearch, notes: Path, caplog) -> None:
    whole, broken = notes.with_name("1.parquet"), notes.with_name("2.parquet")
    with pytest.raises(KeyboardInterrupt):
        mine_mentions(search, [str(notes)], broken, progress=Told(break_at=7))
    assert not broken.exists()
    notes.write_text(notes.read_text("utf8").replace("Case 4:", "Kidney"), encoding="utf8")
    mine_mentions(search, [str(notes)], broken)
    assert caplog.messages == ["Resuming after 3 finished documents"]
    mine_mentions(search, [str(notes)], whole)
    assert broken.read_bytes() == whole.read_bytes()


def test_what_is_refused(search: MentionSearch, notes: Path) -> None:
    with pytest.raises(PelError, match="mentions are written as Parquet; end its name in .parquet"):
        mine_mentions(search, [str(notes)], notes.with_name("a.jsonl"))
    with pytest.raises(PelError, match="is the input, or in its folder"):
        mine_mentions(search, [str(notes.parent)], notes.with_name("a.parquet"))


@pytest.mark.parametrize("at_once", [1, 10, 10**6])
def test_a_window_stays_in_its_document(search, tmp_path, monkeypatch, at_once) -> None:
    monkeypatch.setattr(module, "_BATCH_CHARACTERS", at_once)
    path = write_text(tmp_path / "a.txt", "One two.\nThe first headache, 12 of 20.\nAspirin\n")
    monkeypatch.setattr(module, "WINDOW", 4)
    rows, _ = search.mined(0, list(open_documents(str(path))))
    first, second = map(json.loads, rows)
    expected = {"text": "The first headache, 12", "name": "headache", "offset": 10}
    expected |= {"id": "line 2", "entity": "C06"}
    expected |= {"mentions": [{"start": 10, "end": 18, "id": "C06"}]}
    assert expected.items() <= first.items()
    assert (second["text"], second["entity"]) == ("Aspirin", "C05")


def test_a_bad_document_ends_the_run_or_is_left_out(search: MentionSearch, tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.jsonl", '{"text": "kidney"}\n{"tex": 1}\n{"text": "Kidney"}')
    records = list(open_documents(str(path)))
    with pytest.raises(PelError, match="document 8: .*, or leave it out with --on-error skip"):
        search.mined(7, records)
    _, counts = search._replace(on_error=OnError.skip).mined(7, records)
    assert (counts.documents, counts.mentions, len(counts.skipped)) == (2, 2, 1)
