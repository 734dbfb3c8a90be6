import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.text.coordination import coordinated

NAMES = set(
    "breast cancer,ovarian cancer,prostate cancer,lung cancer,skin cancer,cancer,pain,asthma,"
    "renal failure,weight loss,type 1 diabetes,type 2 diabetes,skin or lung cancer,"
    "type a,hypopigmentation of skin,hypopigmentation of hair".split(",")
)


def parts(text: str, mention: str) -> dict[str, str]:
    start = text.index(mention)
    found = coordinated(text, start, start + len(mention), NAMES.__contains__)
    assert [part.start for part in found] == sorted(part.start for part in found)
    return {text[part.start : part.end]: part.read_as for part in found}


BOTH = {"breast": "breast cancer", "ovarian cancer": "ovarian cancer"}
THREE = {"prostate": "prostate cancer", **BOTH}
ALONE = {"asthma": "asthma", "weight loss": "weight loss"}
SKIN, HAIR = "hypopigmentation of skin", "hypopigmentation of hair"
TYPES = {"type 1": "type 1 diabetes", "type 2 diabetes": "type 2 diabetes"}


@pytest.mark.parametrize(
    "text, mention, expected",
    [
        ("a breast and ovarian cancer", "breast and ovarian cancer", BOTH),
        ("a breast and/or ovarian cancer", "ovarian cancer", BOTH),
        ("sporadic breast or ovarian cancer", "sporadic breast or ovarian cancer", BOTH),
        ("of prostate, breast, and ovarian cancer", "ovarian cancer", THREE),
        (f"{SKIN} or the hair was seen", SKIN, {SKIN: SKIN, "hair": HAIR}),
        ("type 1 and type 2 diabetes", "type 1 and type 2 diabetes", TYPES),
        ("skin or lung cancer", "skin or lung cancer", {}),  # a name as a whole
        ("pain and renal failure", "renal failure", {}),  # no "pain failure"
        ("asthma, and weight loss", "weight loss", {}),
        ("asthma, and weight loss", "asthma, and weight loss", ALONE),
        ("breast and ovarian cyst", "breast and ovarian cyst", {}),
        ("cancer and breast cancer", "breast cancer", {}),  # a name of its own
        (f"{SKIN}, hair was lost", SKIN, {}),  # no "and"
        ("breast, otic and ovarian cancer", "ovarian cancer", BOTH),  # the KB lacks one of the list
        ("breast, asthma and ovarian cancer", "ovarian cancer", {}),  # one has a name of its own
        ("type 1 diabetes and a gene", "type 1 diabetes", {}),  # no "type a"
    ],
)
def test_mentions_that_share_words(text: str, mention: str, expected: dict[str, str]) -> None:
    assert parts(text, mention) == expected


@given(st.text(" ,abndor", max_size=60), st.data())
def test_parts_are_apart_and_each_is_a_name(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    found = coordinated(text, start, end, lambda words: len(words) % 3 != 0)
    assert len(found) != 1
    assert all(len(part.read_as) % 3 for part in found)
    assert all(one.end <= other.start for one, other in zip(found, found[1:]))
