"""The input of the cross-encoder, laid out by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.reading.entity_texts import EntityText
from spacy_pel.reading.marked_texts import PairReader
from spacy_pel.reading.mention import MentionInContext

from .pieces import TEXTS, TOKENIZER, as_pieces, pieces

WORDS = sorted({word for text in TEXTS for word in text.split()})


@st.composite
def contexts(draw) -> MentionInContext:
    before, inside, after = (
        " ".join(draw(st.lists(st.sampled_from(WORDS), min_size=least, max_size=most)))
        for least, most in ((0, 40), (1, 12), (0, 40))
    )
    text = f"{before} {inside} {after}"
    return MentionInContext(text, len(before) + 1, len(before) + 1 + len(inside))


SENTENCES = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)
TITLES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)


@given(
    contexts(),
    st.builds(EntityText, TITLES, st.sampled_from(["", "acute"]), SENTENCES),
    st.integers(16, 300),
)
def test_how_the_length_is_shared(context, entity, length) -> None:
    reader = PairReader(TOKENIZER, length, 512)
    pair = reader.pair(reader.mentions([context])[0], reader.entities([entity])[0])
    tokens = as_pieces(pair)
    left, right = tokens[: pair.start], tokens[pair.start :]
    text, start, end, *_ = context
    before, inside, after = (pieces(part) for part in (text[:start], text[start:end], text[end:]))
    whole_left = ["[CLS]", *before, "[Ms]", *inside, "[Me]", *after, "[SEP]"]
    entity_side = [t for part in entity for t in [*pieces(part), "[SEP]"]]
    while entity_side[-2:] == ["[SEP]", "[SEP]"]:  # empty parts at the end are left out
        entity_side.pop()
    assert len(left) == min(length // 2, len(whole_left))
    if len(whole_left) <= length // 2:  # as in the paper
        assert left == whole_left
    assert left[0] == "[CLS]" and left[-1] == right[-1] == "[SEP]"
    assert left.count("[Ms]") == left.count("[Me]") == 1
    room = length - len(left)
    if len(entity_side) <= room:
        assert right == entity_side
    else:
        assert right == [*entity_side[: room - 1], "[SEP]"]
    assert len(tokens) <= length and pair.end == len(tokens)
