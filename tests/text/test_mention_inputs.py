import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.errors import PelError
from spacy_pel.text.mention_inputs import DocumentContext, MentionInContext, SharedStatesReader


def document(gaps_and_lengths: list[tuple[int, int]]) -> tuple[str, DocumentContext]:
    """A text of tokens so long, with so many spaces before each."""
    offsets, text = [], ""
    for gap, length in gaps_and_lengths:
        text += " " * gap
        offsets.append((len(text), len(text) + length))
        text += "x" * length
    states = np.zeros((len(offsets), 3), np.float32)
    return text, DocumentContext(states, np.array(offsets), np.zeros_like(states))


TOKENS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=8)


@given(TOKENS, st.data())
def test_a_mention_has_the_tokens_that_it_touches(tokens, data) -> None:
    text, context = document(tokens)
    mentions = []
    for _ in range(3):
        start = data.draw(st.integers(0, len(text) - 1))
        end = data.draw(st.integers(start + 1, len(text)))
        mentions.append(MentionInContext(text, start, end, context))
    (found,) = SharedStatesReader().inputs(mentions)
    assert found.document is context and found.mentions.tolist() == [0, 1, 2]
    offsets = context.offsets
    for (_, start, end, *_), (first, last) in zip(mentions, found.spans):
        touched = [i for i, (a, b) in enumerate(offsets) if a < end and start < b]
        assert touched == list(range(first, last)) or (not touched and last == first + 1)
        assert 0 <= first < last <= len(offsets)


@pytest.mark.parametrize("context", [None, DocumentContext()])
def test_what_was_not_read_is_refused(context: DocumentContext | None) -> None:
    with pytest.raises(PelError, match="load the whole pipeline"):
        SharedStatesReader().inputs([MentionInContext("a text", 0, 1, context)])
