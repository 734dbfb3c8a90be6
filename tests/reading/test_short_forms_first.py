"""Definitions whose short form stands first, against what a reader says of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.reading.acronyms import defined_acronyms
from spacy_pel.reading.short_forms_first import is_long_form, short_forms_first

RIGHT = {
    "MS": "multiple sclerosis",
    "COPD": "CHRONIC OBSTRUCTIVE PULMONARY DISEASE",
    "TNF-alpha": "tumor necrosis factor alpha",
    "cAMP": "cyclic adenosine 3',5'-monophosphate",
    "HCTZ": "hydrochlorothiazide",
    "DCC": "deleted in colorectal cancer",
    "LPP": "lipoma preferred partner gene",
}
WRONG = [
    ("CT", "chest"),  # two letters stand for several words
    ("CT", "chest, abdomen, pelvis"),  # most words have no letter
    ("MS", "the multiple sclerosis"),
    ("MS", "mild"),
    ("GABA", "GVG"),
    ("ATP7B", "Atp7b"),
    ("PS", "p < 0.001"),
    ("PO2", "PaO2"),
    ("Patients", "pain and tiredness in the elderly nursing homes studied"),
]


@pytest.mark.parametrize("short", RIGHT)
def test_a_long_form_in_parentheses_is_found(short: str) -> None:
    for text in (f"Her {short} ({RIGHT[short]}) relapsed.", f"{short} ( {RIGHT[short]} ) ."):
        assert defined_acronyms(text) == {short: RIGHT[short]}


@pytest.mark.parametrize(("short", "inside"), WRONG)
def test_what_else_stands_in_parentheses_is_no_long_form(short: str, inside: str) -> None:
    assert not is_long_form(short, inside)
    assert not list(short_forms_first(f"The {short} ({inside}) was seen."))


def test_a_long_form_ends_before_a_remark() -> None:
    text = "MS (multiple sclerosis; since 2003) and WAGR (Wilms tumor, aniridia, genitourinary "
    text += "abnormalities, and mental retardation)"
    assert [(text[place:][: len(short)], short, long) for place, short, long in short_forms_first(text)] == [
        ("MS", "MS", "multiple sclerosis"),
        ("WAGR", "WAGR", text[text.index("Wilms") : -1]),
    ]  # fmt: skip


def test_of_two_definitions_the_first_holds_whichever_form_is_first() -> None:
    one, other = "MS (multiple sclerosis) is treated", "by mass spectrometry (MS)"
    assert defined_acronyms(f"{one} {other}.") == {"MS": "multiple sclerosis"}
    assert defined_acronyms(f"Seen {other}, {one}.") == {"MS": "mass spectrometry"}


@given(st.text("MS multi()-,;.é", max_size=60))
def test_of_any_text_the_letters_stand_in_the_long_form(text: str) -> None:
    for place, short, long in short_forms_first(text):
        assert text.startswith(short, place) and long in text
        rest = iter(long.casefold())
        assert all(letter in rest for letter in short.casefold() if letter.isalnum())
