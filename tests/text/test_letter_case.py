"""Acronyms in lower case, and lines in capitals, are read in their usual case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.text.letter_case import in_usual_case

ACRONYMS = {"htn", "copd", "ra", "dm", "aids", "cap", "mg", "or", "us", "cad", "t2dm", "was"}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("pmh htn, copd, dm.", "pmh HTN, COPD, DM."),
        ("Dm and ra for years. Copd too, t2dm", "DM and RA for years. COPD too, T2DM"),
        ("Seen by GP for copd, 5 ra, Cad", "Seen by GP for COPD, 5 ra, Cad"),  # of ordinary case
        ("or us cap of hearing aids, 5 mg", "or us cap of hearing aids, 5 mg"),
        ("non-copd x.ra copd's dmra", "non-copd x.ra copd's dmra"),
    ],
)
def test_acronyms_are_read_in_capitals_and_words_stay(text: str, read: str) -> None:
    assert in_usual_case(text, ACRONYMS) == read
    assert in_usual_case(text, set()) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("PATIENT WAS TREATED FOR COPD.", "patient was treated for COPD."),
        ("MG, ON 5 MG OR 5MG OF WATER", "MG, on 5 mg or 5mg of WATER"),  # a disease and a unit
        ("IMPRESSION: T2DM, CKD3", "impression: T2DM, CKD3"),
        ("HTN, CAD, CAP", "HTN, CAD, CAP"),  # no words
        ("Often WAS COPD.\nCOPD WAS\n5 mg/dL", "Often WAS COPD.\nCOPD was\n5 mg/dL"),
    ],
)
def test_lines_in_capitals_are_read_in_lower_case(text: str, read: str) -> None:
    assert in_usual_case(text, ACRONYMS) == in_usual_case(text, ()) == read


@given(st.text("aB İß5.\n-") | st.text())
def test_only_the_case_of_ascii_letters_changes(text: str) -> None:
    read = in_usual_case(text, ACRONYMS)
    changed = [(a, b) for a, b in zip(text, read, strict=True) if a != b]
    assert all(a.isascii() and a.swapcase() == b for a, b in changed)
