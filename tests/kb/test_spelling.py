"""Misspelled words are corrected by the words of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel import KnowledgeBase
from spacy_pel.kb.spelling import corrected, other_spellings


def distance(a: str, b: str) -> int:
    """Return the optimal string alignment distance, by its definition."""
    if not a or not b:
        return len(a) + len(b)
    least = min(
        distance(a[:-1], b) + 1,
        distance(a, b[:-1]) + 1,
        distance(a[:-1], b[:-1]) + (a[-1] != b[-1]),
    )
    if a[-2:] == b[-2:][::-1] and len(a) > 1 < len(b):
        least = min(least, distance(a[:-2], b[:-2]) + 1)
    return least


@given(st.text("ab", min_size=4, max_size=6), st.lists(st.text("ab", max_size=6), max_size=4))
def test_the_first_word_with_one_difference_is_the_correction(word: str, known: list[str]) -> None:
    assert corrected(word, known) == next((w for w in known if distance(word, w) <= 1), "")


@pytest.mark.parametrize(
    ("word", "known", "right"),
    [
        ("pnuemonia", ["pneumonia"], "pneumonia"),
        ("asthama", ["asthenia", "asthma"], "asthma"),
        ("asthaema", ["asthma"], ""),
        ("macrocytosis", ["microcytosis"], ""),
        ("hypertention", ["hypotension", "hypertension"], "hypertension"),
    ],
)
def test_words_are_corrected(word: str, known: list[str], right: str) -> None:
    assert corrected(word, known) == right


def test_a_name_is_corrected_if_it_is_then_a_name_of_the_kb(bare_kb: KnowledgeBase) -> None:
    assert bare_kb.respelled(["multple sclerosis", "Rheumatiod Arthritis"]) == [
        "multiple sclerosis",
        "rheumatoid arthritis",
    ]
    spelled = ["head-ache", "Rheum-atoid arthr-itis", "heads pain"]
    assert bare_kb.respelled(spelled) == ["headache", "Rheumatoid arthritis", ""]
    unchanged = ["multiple sclerosis", "multple fever", "multple xxxxxx", "MSX", "", "multple2"]
    assert bare_kb.respelled(unchanged) == [""] * len(unchanged)


def test_hyphens_and_apostrophes() -> None:
    assert other_spellings("parkinsons disease") == ["parkinson's disease"]
    assert other_spellings("peri-carditis") == ["pericarditis"]
    assert other_spellings("grey-turners sign") == ["greyturners sign", "grey-turner's sign"]
    assert other_spellings("GREY-TURNERS SIGN") == ["GREYTURNERS SIGN", "GREY-TURNER'S SIGN"]
    assert other_spellings("bas of 5-HT is Xs") == []
