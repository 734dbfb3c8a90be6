"""Mentions of a batch: their windows, their sample, and what annotations say of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from spacy_pel.documents import open_documents
from spacy_pel.errors import PelError
from spacy_pel.jobs import sampled_mentions
from spacy_pel.jobs.document_blocks import OnError
from spacy_pel.jobs.sampled_mentions import MentionSearch, lowest_of_each
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.name_finder import NameFinder


@pytest.fixture
def search(bare_kb: KnowledgeBase) -> MentionSearch:
    return MentionSearch(bare_kb, NameFinder.of(bare_kb), aliases=True)


def rows_of(search: MentionSearch, path: Path, text: str) -> list[dict]:
    path.write_text(text, encoding="utf8")
    return [json.loads(row) for row in search.mined(0, list(open_documents(str(path)))).rows]


@pytest.mark.parametrize("at_once", [1, 10, 10**6])
def test_a_window_stays_in_its_document(
    search: MentionSearch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(sampled_mentions, "_CHARACTERS_AT_ONCE", at_once)
    text = "One two.\nThe first headache, 12 of 20.\nAspirin\n"
    narrow = search._replace(window=4)
    first, second = rows_of(narrow, tmp_path / "a.txt", text)
    assert (first["text"], first["name"], first["offset"]) == (
        "The first headache, 12",
        "headache",
        10,
    )
    assert (first["id"], first["entity"], first["mentions"]) == (
        "line 2",
        "C06",
        [{"start": 10, "end": 18, "id": "C06"}],
    )
    assert (second["text"], second["entity"], second["right"]) == ("Aspirin", "C05", None)


def test_annotations_tell_what_is_right(search: MentionSearch, tmp_path: Path) -> None:
    mentions = [
        {"start": 0, "end": 7, "id": "C05"},
        {"start": 9, "end": 15, "id": "C01"},
        {"start": 17, "end": 28, "id": "C06"},
        {"start": 29, "end": 49, "id": "X3"},
    ]
    text = "Aspirin, kidney, cephalgia X, rheumatoid arthritis"
    mentions[3].update(start=30, end=50)
    document = json.dumps({"text": text, "mentions": mentions})
    rows = rows_of(search, tmp_path / "a.jsonl", document)
    assert [(row["name"], row["right"]) for row in rows] == [
        ("Aspirin", True),
        ("kidney", False),
        ("cephalgia", None),  # the annotation has other bounds
        ("rheumatoid arthritis", True),  # by an alternative id
    ]


def test_at_most_so_many_of_an_entity_and_any_of_them(
    search: MentionSearch, tmp_path: Path
) -> None:
    text = "\n".join(["aspirin or kidney"] * 20)
    counts: Counter = Counter()
    for seed in range(60):
        few = search._replace(per_entity=5, seed=seed)
        rows = rows_of(few, tmp_path / "a.txt", text)
        assert Counter(row["entity"] for row in rows) == {"C05": 5, "C07": 5}
        counts.update(row["id"] for row in rows if row["entity"] == "C05")
    assert len(counts) == 20 and max(counts.values()) < 30  # 15 each are expected


def test_lowest_of_each_is_a_sort() -> None:
    choices = Random(0)
    for _ in range(50):
        pairs = [
            (choices.randrange(4), choices.randrange(1000)) for _ in range(choices.randrange(30))
        ]
        numbers, priorities = np.array(pairs, dtype=np.uint64).reshape(-1, 2).T
        kept = lowest_of_each(numbers.astype(np.int64), priorities, 3)
        expected = [sorted(p for n, p in pairs if n == number)[:3] for number in range(4)]
        found = [sorted(pairs[at][1] for at in kept if pairs[at][0] == n) for n in range(4)]
        assert found == expected and kept.tolist() == sorted(kept)


def test_a_bad_document_ends_the_run_or_is_left_out(search: MentionSearch, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "kidney"}\n{"tex": 1}\n{"text": "Kidney"}')
    records = list(open_documents(str(path)))
    with pytest.raises(PelError, match="document 8: .*, or leave it out with --on-error skip"):
        search.mined(7, records)
    mined = search._replace(on_error=OnError.skip).mined(7, records)
    assert (mined.documents, mined.found, len(mined.skipped)) == (2, 2, 1)
