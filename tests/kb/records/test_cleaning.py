from __future__ import annotations

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.records.cleaning import cleaned


def test_text_is_made_printable_and_distinct() -> None:
    aliases = ("a\x00\x1fb", "a b", " ", "", "\ud800c")
    entity = Entity(" C1 ", "\x00Fever\n", aliases, ("T", "T"), " \t", ("X", "X", "C1"))
    assert cleaned(entity) == Entity("C1", "Fever", ("a b", "c"), ("T",), None, ("X",))


def test_printable_text_is_kept() -> None:
    names = ("β\u2028x", "Été 日本 🧬")
    entity = Entity("C1", "Été 日本 🧬", names, ("T  T",), "A  b.", ("D1",))
    assert cleaned(entity) == entity


@pytest.mark.parametrize(
    "entity, fault",
    [
        (Entity(" ", "Fever"), "the id ' ' of the entity 'Fever' is blank"),
        (Entity("C\x001", "Fever"), "control characters"),
        (Entity("C1", "Fever", alt_ids=("",)), "the id '' of the entity 'Fever' is blank"),
        (Entity("C1", "\x00"), "'C1' has a blank canonical_name"),
        (Entity(" NIL ", "Fever"), "'Fever' has the id 'NIL', which stands for mentions without"),
        (Entity("C1", "Fever", alt_ids=("D1", "NIL")), "has the id 'NIL'.*; give it another id"),
        (Entity("C1", "Fever", retired_ids=("NIL",)), "has the id 'NIL'"),
    ],
)
def test_unusable_ids_and_names(entity: Entity, fault: str) -> None:
    with pytest.raises(PelError, match=fault):
        cleaned(entity)
