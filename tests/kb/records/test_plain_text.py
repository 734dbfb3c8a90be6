"""One spelling of what Unicode writes in many ways, with the offsets of the text as given."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.kb.records.names import normalised
from spacy_pel.kb.records.plain_text import PlainText, plain


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        *((f"non{dash}Hodgkin", "non-Hodgkin") for dash in "\u2010\u2011\u2013\u2212\ufe58\uff0d"),
        *((f"as{hidden}thma", "asthma") for hidden in "\u00ad\u200b\u200c\u200d\u2060\ufeff\u200e"),
        *((f"a{blank}b", "a b") for blank in "\u00a0\u2002\u2009\u200a\u202f\u205f\u3000"),
        *((f"Crohn{quote}s", "Crohn's") for quote in "\u2018\u2019\u02bc\u2032\u00b4\uff07"),
        ("Sjögren Se\u0301zary Ménière", "Sjogren Sezary Meniere"),
        ("ﬂuorouracil inﬂammation ｆｅｖｅｒ", "fluorouracil inflammation fever"),
        ("β-thalassemia ϐ TNFα αβ", "beta-thalassemia beta TNFalpha alphabeta"),
        ("μ-opioid µ-opioid 5 µg", "mu-opioid mu-opioid 5 μg"),
        ("αιμα", "αιμα"),  # a word
        ("Ca²⁺ H₂O 3′,5″", "Ca2+ H2O 3',5''"),
        ("Straße Søren Weiß Mœbius Łódź", "Strasse Soren Weiss Moebius Lodz"),
        ("Lipitor™, Zocor®", "Lipitor, Zocor"),
        ("がん か\u3099ん 암", "がん がん 암"),
        *((f"hyper{hyphen}\n  tension", "hypertension") for hyphen in "-\u2010\u00ad"),
        ("Arthri-\r\ntis", "Arthritis"),
        ("beta-adre-\nnergic", "beta-adrenergic"),
        (
            "dose-\ndependent drug-\ninduced statin-\ninduced",
            "dose-dependent drug-induced statin-induced",
        ),
        ("TNF-\nmediated HIV-\nrelated", "TNF-\nmediated HIV-\nrelated"),
        ("non-\nHodgkin X-\nlinked -\nitem a-\n\nb", "non-\nHodgkin X-\nlinked -\nitem a-\n\nb"),
    ],
)
def test_many_spellings_become_one(given: str, expected: str) -> None:
    for form in ("NFC", "NFD"):
        assert plain(unicodedata.normalize(form, given)) == plain(expected) == expected


@given(st.text() | st.text("aβé\u0301\u200bﬁ- μg\u00adß\n"), st.data())
def test_offsets_ascend_and_spans_lead_back(given: str, data: st.DataObject) -> None:
    text = PlainText(given)
    assert plain(text.text) == text.text
    assert (given.isascii() and "\n" not in given) <= (text.text == given)
    n = len(text.text)
    starts, ends = text.given(np.arange(n), np.arange(1, n + 1))
    assert (np.diff(starts) >= 0).all() and (np.diff(ends) >= 0).all()
    assert (starts >= 0).all() and (starts < ends).all() and (ends <= len(given)).all()
    assert (np.diff(text.places(np.arange(len(given) + 1))) >= 0).all()
    start = data.draw(st.integers(0, n))
    end = data.draw(st.integers(start, n))
    first, after = text.given(np.array([start]), np.array([end]))
    reached = text.places(np.array([first[0], after[0]]))
    assert reached[0] <= start and (reached[1] >= end or start == end)  # a ligature is taken whole
    if not any(
        "GREEK" in unicodedata.name(letter, "") for letter in unicodedata.normalize("NFKD", given)
    ):
        # How Greek letters are written depends on the letters around them.
        assert text.text[start:end] in plain(given[first[0] : after[0]])


@given(st.text())
def test_names_are_the_same_in_all_forms(name: str) -> None:
    assert normalised(plain(name)) == normalised(name) == normalised(normalised(name))
    for form in ("NFC", "NFD"):
        assert plain(unicodedata.normalize(form, plain(name))) == plain(name)
