from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.kb import Entity, SemanticType
from spacy_pel.kb.records import lookup_tables, store
from spacy_pel.kb.records.names import normalised, words
from spacy_pel.kb.records.record_writing import write_records
from spacy_pel.kb.records.store import EntityStore

FULL = Entity(
    "C1", 'A "name"\\', ("b\u2028[]", "日本"), ("T", "U"), "d", ("a1", "a2"), ("C0", "C9"),
    ("r1",), ("MSH:D1", "MSH:D1 x"), ("MSH", "file.obo"),
)  # fmt: skip


def stored(folder: Path, entities: list[Entity], types: tuple[SemanticType, ...] = ()):
    write_records(folder / "records.sqlite", folder / "scratch", entities, types)
    return EntityStore(folder / "records.sqlite")


def test_every_field_is_kept(tmp_path: Path) -> None:
    bare = Entity("C2", "bare")
    kept = stored(tmp_path, [FULL, bare])
    assert list(kept) == kept.entities([0, 1]) == [FULL, bare]
    assert [kept.number(id) for id in ("C1", "C2", "a1", "C0")] == [0, 1, None, None]
    assert [kept.alternative(id) for id in ("a1", "a2", "r1", "C1", "MSH:D1")] == [
        0, 0, 0, None, None
    ]  # fmt: skip


def test_types_and_sources(tmp_path: Path) -> None:
    given_types = (SemanticType("Above", "T0", "A"), SemanticType("T", "T1", "A1"))
    kept = stored(tmp_path, [FULL, Entity("C2", "x", (), ("T",), sources=("NCI",))], given_types)
    assert kept.semantic_types() == [*given_types, SemanticType("U")]
    assert kept.of_types({"T", "U"}).tolist() == [0, 1] and kept.of_types({"U"}).tolist() == [0]
    assert kept.of_types({"Above", "no such"}).tolist() == []
    assert kept.of_sources({"NCI", "MSH"}).tolist() == [0, 1]
    assert kept.sources() == ["MSH", "NCI", "file.obo"]


texts = st.text("aAbé -+日", min_size=1, max_size=4).filter(str.strip)


@given(st.lists(st.lists(texts, min_size=1, max_size=3), min_size=1, max_size=6), texts)
@settings(max_examples=50, deadline=None)
def test_look_ups_by_name_against_all_records(names_of: list[list[str]], query: str) -> None:
    entities = [Entity(f"C{i}", n[0], tuple(n[1:])) for i, n in enumerate(names_of)]
    with tempfile.TemporaryDirectory() as folder:
        kept = stored(Path(folder), entities)
        records = list(kept)  # names without blanks around
        by_form = [{normalised(name) for name in each.names} for each in records]
        assert kept.named(query, exact=False) == [
            number for number, forms in enumerate(by_form) if normalised(query) in forms
        ]
        assert kept.named(query, exact=True) == [
            number for number, each in enumerate(records) if query in each.names
        ]
        holders = {
            number
            for number, each in enumerate(records)
            if words(query) and set(words(query)) <= {w for n in each.names for w in words(n)}
        }
        found = kept.found(query, limit=100)
        assert {number for number, _ in found} == holders | set(kept.named(query, exact=False))
        assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))
        kept.close()


def test_names_with_the_same_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (store, lookup_tables):
        monkeypatch.setattr(module, "name_hash", lambda name: 7)
    kept = stored(tmp_path, [Entity("C1", "one", ("uno",)), Entity("C2", "two")])
    assert kept.named("ONE", exact=False) == [0] and kept.named("three", exact=False) == []


def test_the_named_are_found_among_more_than_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_COMPARED", 3)
    many = [Entity(f"C{i}", f"fever of kind {i}") for i in range(9)]
    kept = stored(tmp_path, [*many, Entity("C9", "Fever")])
    assert [number for number, _ in kept.found("fever", limit=10)] == [9, 0, 1, 2]


@pytest.mark.parametrize("query", ['"', "fever OR x", "fever*", "NOT", "a:b", "\x00", "\ud800", ""])
def test_queries_are_words_not_a_language(tmp_path: Path, query: str) -> None:
    kept = stored(
        tmp_path, [Entity("C1", "fever"), Entity("C2", "fever or x"), Entity("C3", "a b")]
    )
    expected = {"fever OR x": [1], "fever*": [0, 1], "a:b": [2]}
    assert [number for number, _ in kept.found(query, limit=5)] == expected.get(query, [])
