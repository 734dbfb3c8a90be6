import pytest

from spacy_pel.text.lower_case import with_capitals

ACRONYMS = {"htn", "copd", "ra", "dm", "aids", "cap", "mg", "or", "us", "cad"}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("pmh htn, copd, dm.", "pmh HTN, COPD, DM."),
        ("Dm and ra for years. Copd too.", "DM and RA for years. COPD too."),
        ("Seen by GP for copd, 5 ra, Cad", "Seen by GP for COPD, 5 ra, Cad"),  # of ordinary case
        ("or us cap of hearing aids, 5 mg", "or us cap of hearing aids, 5 mg"),
        ("non-copd x.ra copd's dmra", "non-copd x.ra copd's dmra"),
    ],
)
def test_acronyms_are_read_in_capitals_and_words_stay(text: str, read: str) -> None:
    assert with_capitals(text, ACRONYMS) == read
    assert with_capitals(text, set()) == text
