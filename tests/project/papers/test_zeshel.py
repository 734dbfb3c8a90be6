"""ZESHEL is read with the right offsets, and nothing is lost in silence."""

import json
from pathlib import Path

import pytest
from papers import zeshel

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, open_source

from ...conftest import records

WORLDS = {
    "garden": [
        ("G1", "Rose", "Rose The rose is a plant . A Tulip ( flower ) is not ."),
        ("G2", "Tulip ( flower )", "Tulip ( flower ) Grows from a bulb near the rose ."),
    ],
    "harbour": [
        ("H1", "Rope", "Rope Rope ties the ship to the quay ."),
        ("H2", "Ship", "Ship It sails ."),
        ("H3", "Quay", "Quay Where a ship lies ."),
    ],
}
# World, document, first and last token, text, and the document that is meant.
MENTIONS = {
    "train": [("garden", "G1", 8, 11, "Tulip ( flower )", "G2")],
    "test": [
        ("harbour", "H1", 4, 4, "ship", "H2"),
        ("garden", "G2", 10, 10, "rose", "G1"),
        ("harbour", "H3", 3, 3, "ship", "H2"),
        ("harbour", "H1", 7, 7, "quay", "H3"),
    ],
}
KEYS = ("corpus", "context_document_id", "start_index", "end_index", "text", "label_document_id")


def write_zeshel(folder: Path) -> Path:
    """``documents/<world>.json`` and ``mentions/<split>.json``, as they are published."""
    for world, documents in WORLDS.items():
        rows = [dict(zip(("document_id", "title", "text"), row)) for row in documents]
        write_lines(folder / "documents" / f"{world}.json", rows)
    for split, mentions in MENTIONS.items():
        rows = [dict(zip(KEYS, row), category="LOW_OVERLAP") for row in mentions]
        write_lines(folder / "mentions" / f"{split}.json", rows)
    return folder


def write_lines(path: Path, records: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf8")


def test_mentions_of_a_document_come_together(tmp_path: Path) -> None:
    zeshel.main(write_zeshel(tmp_path), tmp_path / "out")
    rose = "The rose is a plant . A Tulip ( flower ) is not ."
    told = (rose, "Grows from a bulb near the rose .")
    assert list(open_source(tmp_path / "out" / "worlds" / "garden.jsonl").entities) == [
        Entity(id, title, definition=definition, sources=("garden",))
        for (id, title, _), definition in zip(WORLDS["garden"], told)
    ]
    names = sorted(str(path.relative_to(tmp_path / "out")) for path in tmp_path.glob("out/t*/*"))
    assert names == ["test/garden.jsonl", "test/harbour.jsonl", "train/garden.jsonl"]
    assert [
        (document.id, [(m.start, m.text, m.label, m.ids) for m in document.mentions])
        for document in open_corpus(tmp_path / "out" / "test").documents()
    ] == [
        ("G2", [(44, "rose", "LOW_OVERLAP", ("G1",))]),
        ("H1", [(19, "ship", "LOW_OVERLAP", ("H2",)), (31, "quay", "LOW_OVERLAP", ("H3",))]),
        ("H3", [(13, "ship", "LOW_OVERLAP", ("H2",))]),
    ]


def test_a_document_is_cut_around_its_mentions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeshel, "WORDS", 1)
    mentions = [dict(zip(KEYS, ("w", "D", 2, 3, "c d", "E")), category="c")]
    document = zeshel.document_of("D", "a  b\u00a0c \nd e f", mentions)
    [found] = document["mentions"]
    assert document["text"] == "b\u00a0c \nd e"
    assert document["text"][found["start"] : found["end"]] == "c \nd"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "boat"}, "H1 does not have 'boat' at tokens 4-4; fetch"),
        ({"start_index": 5, "end_index": 99}, "H1 does not have 'ship' at tokens 5-99"),
        ({"context_document_id": "H9"}, "harbour lacks 1 documents of test, such as H9"),
        ({"corpus": "lego"}, "lego.json: cannot be read"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, change: dict, message: str) -> None:
    path = write_zeshel(tmp_path) / "mentions" / "test.json"
    first, *others = records(path)
    write_lines(path, [{**first, **change}, *others])
    with pytest.raises(PelError, match=message):
        zeshel.main(tmp_path, tmp_path / "out")
