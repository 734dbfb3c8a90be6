"""Names are found in other words if the KB's synonyms show that these mean the same."""

import numpy as np

from spacy_pel.kb import Entity
from spacy_pel.kb.name_finder import NameFinder, name_table

PARTS = "arm ear eye hip leg".split()


def found(entities: list[Entity], text: str) -> list[tuple[str, str]]:
    finder = NameFinder(name_table(entities, np.arange(len(entities)), True))
    return [
        (text[start:end], entities[owner].concept_id)
        for start, end, owners in finder.find(text)
        for owner in owners.tolist()
    ]


def pairs(one: str, other: str, **scope: tuple[str, ...]) -> list[Entity]:
    """Entities that have names in both wordings; "*" is a part of the body."""
    names = [(one.replace("*", part), other.replace("*", part)) for part in PARTS]
    return [Entity(name, name, (synonym,)) for name, synonym in names]


def test_words_of_names_that_differ_in_them_alone() -> None:
    text = "elevated heat of fast growing nails"
    kb = [Entity("T:1", "increased heat"), Entity("T:2", "rapidly growing nail")]
    shown = pairs("increased * size", "elevated * size")
    assert found([*shown, *kb], text) == [("elevated heat", "T:1")]
    shown += pairs("rapidly growing *", "fast growing *")
    right = [("elevated heat", "T:1"), ("fast growing nails", "T:2")]
    assert found([*shown, *kb], text) == right
    assert found([*shown[1:], *kb], text) == right[1:]  # by the names of four entities
    related = [e._replace(related_names=e.aliases) for e in shown[:5]]
    assert found([*related, *kb], text) == []


def test_words_that_tell_entities_apart_do_not_mean_the_same() -> None:
    shown = [*pairs("short *", "small *"), Entity("T:1", "short hand")]
    assert found(shown, "small hand") == [("small hand", "T:1")]
    for other in ("toe", "nose"):
        shown += [Entity(f"{word} {other}", f"{word} {other}") for word in ("short", "small")]
    assert found(shown, "small hand") == []


def test_a_name_of_one_word_in_a_word_that_nearly_always_means_the_same() -> None:
    shown = [*pairs("neoplasm of *", "tumor of *"), Entity("T:1", "neoplasm")]
    assert found(shown, "tumors") == [("tumors", "T:1")]
    others = [Entity(f"{n}", f"tumor of {n}") for n in "abcdefghijklmn"]
    assert found([*shown, *others], "tumors") == []


def test_a_first_word_that_means_the_same_as_a_last_word() -> None:
    kb = [Entity("T:1", "absence of speech"), Entity("T:2", "absent hair")]
    text = "absent speech, absence of hair"
    shown = pairs("absent *", "* absence")
    assert found([*shown, *kb], text) == [("absent speech", "T:1"), ("absence of hair", "T:2")]
    assert found([*shown[1:], *kb], text) == []
    others = [Entity(name, name) for part in "ab" for name in (f"absent {part}", f"{part} absence")]
    assert found([*shown, *kb, *others], text) == []
