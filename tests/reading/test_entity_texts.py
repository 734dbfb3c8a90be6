from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.reading.entity_texts import EntityReader, EntityText

from .pieces import TOKENIZER, as_pieces, pieces


def reader(length: int = 64, limit: int = 64) -> EntityReader:
    return EntityReader(TOKENIZER, length, limit)


@pytest.mark.parametrize(
    ("entity", "expected"),
    [
        (EntityText("a b", "c", "d e"), "[CLS] a b [SEP] c [SEP] d e [SEP]"),
        (EntityText("a", "c"), "[CLS] a [SEP] c [SEP]"),
        (EntityText("a"), "[CLS] a [SEP]"),
        (EntityText("a", "", "d"), "[CLS] a [SEP] [SEP] d [SEP]"),
        (EntityText("a", "  ", " "), "[CLS] a [SEP]"),
        (EntityText("", "c"), "[CLS] [SEP] c [SEP]"),
        (EntityText(""), "[CLS] [SEP]"),
    ],
)
def test_an_entity_is_title_types_description(entity: EntityText, expected: str) -> None:
    tokens = reader().tokens([entity])[0]
    assert as_pieces(tokens) == expected.split()
    assert as_pieces(tokens)[tokens.start : tokens.end] == entity.title.split()


@given(
    st.lists(st.tuples(st.text(max_size=8), st.text(max_size=5), st.text(max_size=8))),
    st.integers(3, 16),
)
def test_any_entities_equal_the_naive_inputs(parts: list[tuple[str, str, str]], n: int) -> None:
    built = reader(n).tokens([EntityText(*p) for p in parts])
    for tokens, texts in zip(built, parts, strict=True):
        tokenised = [pieces(text) for text in texts]
        last = max((i for i, part in enumerate(tokenised) if part), default=0)
        expected = ["[CLS]"]
        for part in tokenised[: last + 1]:
            expected += [*part, "[SEP]"]
        if len(expected) > n:
            expected = [*expected[: n - 1], "[SEP]"]
        assert as_pieces(tokens) == expected
        assert (tokens.start, tokens.end) == (1, min(1 + len(tokenised[0]), n - 1))
