"""The record of a document and its mentions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.documents.document import Document, Passage, mention_at
from spacy_pel.errors import PelError


@given(text=st.text("ab \t\u00a0\u2028é"), start=st.integers(-2, 12), end=st.integers(-2, 12))
def test_a_mention_is_in_its_text_without_white_space_around_it(text, start, end) -> None:
    inside = 0 <= start < end <= len(text)
    if not inside or not text[start:end].strip():
        with pytest.raises(PelError, match="is blank" if inside else "is not in the"):
            mention_at(text, start, end)
        return
    mention = mention_at(text, start, end, "D", ("C1",))
    assert mention.text == text[mention.start : mention.end] == text[start:end].strip()
    assert start <= mention.start < mention.end <= end
    assert not text[start : mention.start].strip() and not text[mention.end : end].strip()
    assert (mention.label, mention.ids) == ("D", ("C1",))


def test_what_a_source_says_of_a_mention_is_compared() -> None:
    assert mention_at("my\tMS now", 2, 6, expected="MS ").text == "MS"
    with pytest.raises(PelError, match="reads 'RA' but the document has 'MS' at 3-5; correct the"):
        mention_at("my MS", 3, 5, expected="RA")


@pytest.mark.parametrize(
    "passages, title",
    [
        ([(0, 3, "title"), (4, 7, "abstract")], "Flu"),
        ([(0, 7, "title")], "Flu now"),
        ([(0, 3, "abstract")], ""),
        ([(4, 7, "title")], ""),
        ([], ""),
    ],
)
def test_the_title(passages: list[tuple[int, int, str]], title: str) -> None:
    parts = tuple(Passage(start, end, {"type": kind}) for start, end, kind in passages)
    assert Document("Flu now", passages=parts).title == title
