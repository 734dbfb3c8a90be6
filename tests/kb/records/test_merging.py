import sqlite3
from collections import defaultdict
from functools import reduce
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, build
from spacy_pel.kb.build import united
from spacy_pel.kb.records.entity import merged, plain_id, renamed

from ...growth import assert_linear

FULL = Entity(
    "A1", "Fever", ("Pyrexia",), ("Finding",), None, ("X1",), ("P1",), ("R1",), ("M:1",), ("A",)
)
OTHER = Entity(
    "B1", "Febris", ("Pyrexia", "Fever"), ("Sign", "Finding"), "Hot.", ("A1", "X2"), ("P2", "P1"),
    ("R2",), ("M:2",), ("B", "A"),
)  # fmt: skip


def test_joined_takes_the_first_and_unites_the_rest() -> None:
    assert merged(FULL, OTHER) == Entity(
        "A1", "Fever", ("Pyrexia", "Febris", "Fever"), ("Finding", "Sign"), "Hot.",
        ("X1", "B1", "X2"), ("P1", "P2"), ("R1", "R2"), ("M:1", "M:2"), ("A", "B"),
    )  # fmt: skip
    assert merged(OTHER, FULL).definition == "Hot."
    assert merged(FULL, FULL) == FULL


def test_a_name_has_its_closest_scope() -> None:
    one = Entity("A", "a", ("b", "c", "d"), exact_names=("a", "b"), related_names=("c", "d", "e"))
    both = merged(one, Entity("A", "a", narrow_names=("c", "b"), broad_names=("c",)))
    assert both.aliases == ("b", "c", "d", "e") and both.related_names == ("d", "e")
    assert (both.exact_names, both.narrow_names, both.broad_names) == (("b",), ("c",), ())


def test_plain_ids() -> None:
    of_a_vocabulary = "UMLS:C0012634 UMLS_CUI:C0012634 umls:C0012634 MeSH:D009103 MSH:C535700"
    for id in of_a_vocabulary.split():
        assert plain_id(id) == id.partition(":")[2]
    for id in ("UMLS:unknown", "DOID:4", "C0012634", "X:UMLS:C0012634"):
        assert plain_id(id) == id


def test_by_mapping() -> None:
    """Parents get their new ids, and none is its own parent."""
    flu = Entity("M:2", "flu", parents=("M:1", "M:9"))
    mondo = [Entity("M:1", "disease", parents=("C1",)), flu]
    umls = [Entity("C1", "Disease")]
    mapping = {"M:1": "C1", "M:2": "C2"}
    assert list(united(renamed([*mondo, *umls], mapping))) == [
        Entity("C1", "disease", ("Disease",), alt_ids=("M:1",)),
        Entity("C2", "flu", alt_ids=("M:2",), parents=("C1", "M:9")),
    ]
    first, _ = united(renamed([*umls, *mondo], mapping))
    assert (first.canonical_name, first.alt_ids) == ("Disease", ("M:1",))


ids = st.text("abcdef", min_size=1, max_size=2)
names = st.lists(st.text("xyz", min_size=1, max_size=3), max_size=3).map(tuple)
entities = st.tuples(ids, st.text("xyz", min_size=1), names).map(lambda fields: Entity(*fields))


@given(st.lists(entities, max_size=20), st.dictionaries(ids, ids, max_size=8))
def test_like_a_merge_in_memory(records: list[Entity], mapping: dict[str, str]) -> None:
    groups = defaultdict(list)
    for entity in records:
        groups[end(mapping, entity.concept_id)].append(entity)
    made = list(united(renamed(records, mapping)))
    assert [entity.concept_id for entity in made] == sorted(groups)
    for entity in made:
        group = groups[entity.concept_id]
        assert entity.canonical_name == group[0].canonical_name
        assert list(entity.names) == list(dict.fromkeys(chain(*(member.names for member in group))))
        every = {entity.concept_id, *(member.concept_id for member in group)}
        assert {entity.concept_id, *entity.alt_ids} == every


def end(mapping: dict[str, str], id: str) -> str:
    """Where an id leads to: many steps on, and then to the smallest of the cycle, if it is one."""
    for _ in range(len(mapping) + 1):
        id = mapping.get(id, id)
    cycle = [id]
    while (following := mapping.get(cycle[-1], cycle[-1])) != id:
        cycle.append(following)
    return min(cycle)


def test_no_room_to_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **keywords: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(build.sqlite3, "connect", full)
    with pytest.raises(PelError, match="disk is full.*TMPDIR"):
        list(united([Entity("A", "a")]))


def test_many_records_of_one_entity_are_joined_in_time() -> None:
    """A wrong column of a table as the concept_id makes one entity of all rows."""

    def records(n: int) -> list[Entity]:
        return [Entity("A", f"name {i}", (f"alias {i}",), xrefs=(f"X:{i}",)) for i in range(n)]

    expected = [Entity("0", "x"), reduce(merged, records(3))]
    assert list(united([*records(3), Entity("0", "x")])) == expected
    assert_linear(lambda entities: list(united(entities)), records, 500)
