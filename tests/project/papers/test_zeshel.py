"""ZESHEL is read with the right offsets, and nothing is lost in silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from papers import zeshel

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, open_source

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
    told = (
        "The rose is a plant . A Tulip ( flower ) is not .",
        "Grows from a bulb near the rose .",
    )
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


@given(
    words=st.lists(st.text("ab\u00e9.", min_size=1, max_size=3), min_size=1, max_size=12),
    blanks=st.sampled_from([" ", "  ", "\u00a0", " \n"]),
    places=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3)), min_size=1, max_size=3),
    context=st.integers(0, 4),
)
@settings(deadline=None, max_examples=50)
def test_offsets_agree_with_split(words, blanks, places, context) -> None:
    spans = [(min(a, len(words) - 1), min(a + more, len(words) - 1)) for a, more in places]
    mentions = [
        dict(zip(KEYS, ("w", "D", a, b, " ".join(words[a : b + 1]), "E")), category="c")
        for a, b in spans
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zeshel, "CONTEXT_WORDS", context)
        document = zeshel.document_of("D", blanks.join(words), mentions)
    texts = [document["text"][m["start"] : m["end"]] for m in document["mentions"]]
    assert [text.split() for text in texts] == [words[a : b + 1] for a, b in spans]
    first, last = min(a for a, _ in spans), max(b for _, b in spans)
    assert document["text"].split() == words[max(0, first - context) : last + 1 + context]


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
    first, *others = [json.loads(line) for line in path.read_text("utf8").splitlines()]
    write_lines(path, [{**first, **change}, *others])
    with pytest.raises(PelError, match=message):
        zeshel.main(tmp_path, tmp_path / "out")
