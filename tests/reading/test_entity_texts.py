from __future__ import annotations

import pytest
from hypothesis import given, settings
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


@pytest.mark.parametrize(
    ("length", "expected", "title"),
    [
        (9, "[CLS] a b [SEP] c [SEP] d e [SEP]", "a b"),
        (8, "[CLS] a b [SEP] c [SEP] d [SEP]", "a b"),
        (6, "[CLS] a b [SEP] c [SEP]", "a b"),
        (4, "[CLS] a b [SEP]", "a b"),
        (3, "[CLS] a [SEP]", "a"),
    ],
)
def test_an_entity_is_cut_at_its_length(length: int, expected: str, title: str) -> None:
    entity = EntityText("a b", "c", "d e")
    for read in (reader(length), reader(limit=length)):
        tokens = read.tokens([entity])[0]
        assert as_pieces(tokens) == expected.split()
        assert as_pieces(tokens)[tokens.start : tokens.end] == title.split()


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=5), st.text(max_size=8))))
def test_any_entities_equal_the_naive_inputs(parts: list[tuple[str, str, str]]) -> None:
    built = reader(12).tokens([EntityText(*p) for p in parts])
    for tokens, texts in zip(built, parts, strict=True):
        tokenised = [pieces(text) for text in texts]
        last = max((i for i, part in enumerate(tokenised) if part), default=0)
        expected = ["[CLS]"]
        for part in tokenised[: last + 1]:
            expected += [*part, "[SEP]"]
        if len(expected) > 12:
            expected = [*expected[:11], "[SEP]"]
        assert as_pieces(tokens) == expected
        assert (tokens.start, tokens.end) == (1, min(1 + len(tokenised[0]), 11))


def test_special_tokens_spelt_out_in_a_title_are_text() -> None:
    title = reader().tokens([EntityText("a [SEP] b")])[0]
    assert as_pieces(title).count("[SEP]") == 1
