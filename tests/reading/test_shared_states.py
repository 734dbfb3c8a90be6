"""The mentions of texts that were read, in their tokens: against token by token."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.errors import PelError
from spacy_pel.reading.inputs import MentionInContext, train_tokenizer
from spacy_pel.reading.shared_states import ReadText, StatesBuilder

BUILDER = StatesBuilder(train_tokenizer(["a text of words"], 60), 0, 16, 48)


def read(gaps_and_lengths: list[tuple[int, int]]) -> ReadText:
    """A text of tokens so long, with so many spaces before each."""
    offsets, text = [], ""
    for gap, length in gaps_and_lengths:
        text += " " * gap
        offsets.append((len(text), len(text) + length))
        text += "x" * length
    return ReadText.of(text, np.zeros((len(offsets), 3), np.float32), np.array(offsets))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=8),
    st.data(),
)
def test_a_mention_has_the_tokens_that_it_touches(tokens, data) -> None:
    text = read(tokens)
    mentions = []
    for _ in range(3):
        start = data.draw(st.integers(0, len(text) - 1))
        mentions.append(MentionInContext(text, start, data.draw(st.integers(start + 1, len(text)))))
    (found,) = BUILDER.mentions(mentions)
    assert found.text is text and found.mentions.tolist() == [0, 1, 2]
    for (_, start, end), (first, last) in zip(mentions, found.spans):
        touched = [i for i, (a, b) in enumerate(text.offsets) if a < end and start < b]
        assert touched == list(range(first, last)) or (not touched and last == first + 1)
        assert 0 <= first < last <= len(text.offsets)


def test_mentions_are_gathered_by_document() -> None:
    one, other = read([(0, 2), (1, 2)]), read([(0, 2), (1, 2)])  # equal texts, two documents
    places = [(one, 0, 2), (other, 3, 5), (one, 3, 5)]
    found = BUILDER.mentions([MentionInContext(*place) for place in places])
    assert [each.mentions.tolist() for each in found] == [[0, 2], [1]]
    assert [each.spans.tolist() for each in found] == [[[0, 1], [1, 2]], [[1, 2]]]
    assert found[0].text is one and found[1].text is other
    assert BUILDER.mentions([]) == []


def test_a_text_that_was_not_read() -> None:
    with pytest.raises(PelError, match="load the whole pipeline"):
        BUILDER.mentions([MentionInContext("a text", 0, 1)])
