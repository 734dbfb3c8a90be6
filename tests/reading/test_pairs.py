"""The input of the cross-encoder, laid out by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.reading.entity_texts import EntityText
from spacy_pel.reading.marked_texts import PairReader
from spacy_pel.reading.mention import MentionInContext
from spacy_pel.reading.word_pieces import train_tokenizer

from ..towers import TEXTS, mention

TOKENIZER = train_tokenizer(TEXTS, 200)
WORDS = sorted({word for text in TEXTS for word in text.split()})


def tokens_of(ids) -> list[str]:
    return [TOKENIZER.id_to_token(int(id)) for id in ids]


def plain(text: str) -> list[str]:
    return TOKENIZER.encode(text, add_special_tokens=False).tokens


def made(context: MentionInContext, entity: EntityText, length: int, limit: int = 512):
    reader = PairReader(TOKENIZER, length, limit)
    return reader.pair(reader.mentions([context])[0], reader.entities([entity])[0])


def test_a_pair_with_room_to_spare_is_the_papers() -> None:
    context = mention("The patient has MS of the nerves.", "MS")
    pair = made(context, EntityText("Multiple sclerosis", "Disease", "a disease of the nerves"), 99)
    left = ["[CLS]", *plain("The patient has "), "[Ms]", *plain("MS"), "[Me]"]
    left += [*plain(" of the nerves."), "[SEP]"]
    right = [*plain("Multiple sclerosis"), "[SEP]", *plain("Disease"), "[SEP]"]
    right += [*plain("a disease of the nerves"), "[SEP]"]
    assert tokens_of(pair.ids) == left + right
    assert (pair.start, pair.end) == (len(left), len(left + right))


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
    st.builds(EntityText, TITLES, st.sampled_from(["", "Disease"]), SENTENCES),
    st.integers(16, 120),
)
def test_how_the_length_is_shared(context, entity, length) -> None:
    pair = made(context, entity, length)
    tokens = tokens_of(pair.ids)
    left, right = tokens[: pair.start], tokens[pair.start :]
    whole_left = 4 + sum(
        len(plain(part))
        for part in (
            context.text[: context.start],
            context.text[context.start : context.end],
            context.text[context.end :],
        )
    )
    entity_side = [t for part in entity for t in [*plain(part), "[SEP]"]]
    while entity_side[-2:] == ["[SEP]", "[SEP]"]:  # empty parts at the end are left out
        entity_side.pop()
    assert len(left) == min(length // 2, whole_left)
    assert left[0] == "[CLS]" and left[-1] == right[-1] == "[SEP]"
    assert left.count("[Ms]") == left.count("[Me]") == 1
    room = length - len(left)
    if len(entity_side) <= room:
        assert right == entity_side
    else:
        assert right == [*entity_side[: room - 1], "[SEP]"]
    assert len(tokens) <= length and pair.end == len(tokens)
