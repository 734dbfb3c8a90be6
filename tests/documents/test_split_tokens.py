"""Tokens split at the edges of mentions."""

from __future__ import annotations

from spacy.tokens import Doc

from spacy_pel.spans import split_tokens

from ..growth import assert_linear
from .examples import NLP


def test_only_the_tokens_of_the_edges_are_split() -> None:
    doc = NLP.make_doc("I don't  have pre-MS now.")
    doc.user_data["id"] = "d1"
    split, n = split_tokens(doc, {0, 2, 11, 12, 15, 21, 100})
    assert n == 2 and split.text == doc.text and split.user_data == {"id": "d1"}
    assert [token.norm_ for token in split][:3] == ["i", "do", "not"]
    before, after = [t.text for t in doc], [t.text for t in split]
    assert before[3:6] == [" ", "have", "pre"] and after[3:9] == [" ", "ha", "v", "e", "p", "re"]
    assert (before[:4], before[6:]) == (after[:4], after[9:])


def test_nothing_to_split() -> None:
    doc = NLP.make_doc("her MS")
    assert split_tokens(doc, {0, 3, 4, 6}) == (doc, 0)
    assert split_tokens(NLP.make_doc(""), set())[1] == 0


def test_many_tokens_are_split_in_time() -> None:
    def cut(doc: Doc) -> None:
        assert split_tokens(doc, range(1, len(doc.text), 4))[1] == len(doc)

    assert_linear(cut, lambda n: NLP.make_doc("abc " * n), 2_000)
