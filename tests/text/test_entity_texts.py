"""Texts as token ids: mentions, entities and pairs, beside naive inputs (PEL, appendix A and B)."""

from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.kb import Entity
from spacy_pel.kb.records.plain_text import plain
from spacy_pel.text.entity_texts import EntityReader, EntityText, proxy_texts
from spacy_pel.text.mention_inputs import MarkedTextReader, MentionInContext, PairReader

from .pieces import TOKENIZER, as_pieces, pieces


def reader(length: int = 64, limit: int = 64) -> MarkedTextReader:
    return MarkedTextReader(TOKENIZER, length, limit)


def entities(length: int = 64) -> EntityReader:
    return EntityReader(TOKENIZER, length, 64)


def naive_mention(
    left: list[str], middle: list[str], right: list[str], length: int, limit: int
) -> tuple[list[str], int]:
    """Appendix A, context dealt out one piece at a time; and where the mention starts."""
    middle = middle[: limit - 4]
    before, after = left[::-1], list(right)
    lefts, rights = [], []
    while len(lefts) + len(rights) + len(middle) + 4 < min(length, limit) and (before or after):
        if after and (len(rights) <= len(lefts) or not before):
            rights.append(after.pop(0))
        else:
            lefts.append(before.pop(0))
    sequence = ["[CLS]", *lefts[::-1], "[Ms]", *middle, "[Me]", *rights, "[SEP]"]
    return sequence, len(lefts) + 2


def test_special_tokens_spelt_out_in_a_text_are_text() -> None:
    text = "methyl [Me] a [SEP] [Ms]"
    tokens = reader().tokens([MentionInContext(text, 12, 13)])[0]
    assert [as_pieces(tokens).count(s) for s in ("[Ms]", "[Me]", "[SEP]")] == [1, 1, 1]


@st.composite
def mention_in_text(draw: st.DrawFn) -> MentionInContext:
    letters = st.one_of(st.sampled_from("ab hepatoxic,"), st.characters(codec="utf-8"))
    text = draw(st.text(letters, max_size=40))
    offsets = st.integers(0, len(text))
    start, end = sorted((draw(offsets), draw(offsets)))
    return MentionInContext(text, start, end)


@given(mention_in_text(), st.integers(5, 40), st.integers(5, 40))
def test_any_mention_equals_the_naive_input(mention, length, limit) -> None:
    text, start, end, *_ = mention
    tokens = reader(length, limit).tokens([mention])[0]
    parts = [pieces(part) for part in (text[:start], text[start:end], text[end:])]
    expected, first = naive_mention(*parts, length, limit)
    assert as_pieces(tokens) == expected
    assert (tokens.start, tokens.end) == (first, first + len(parts[1][: limit - 4]))
    assert len(tokens.ids) <= max(min(length, limit), min(limit, len(parts[1]) + 4))


SOME = st.sampled_from(["hepatotoxicity", "a", "pain,", "日本", "é", "x-y"])


@given(st.lists(SOME, min_size=1), st.data())
def test_many_mentions_of_a_document_equal_one_at_a_time(words, data) -> None:
    text, mentions = " ".join(words), [MentionInContext("another pain", 8, 12)]
    for _ in range(data.draw(st.integers(1, 5))):
        first = data.draw(st.integers(0, len(words) - 1))
        last = data.draw(st.integers(first, len(words) - 1))
        start = len(" ".join([*words[:first], ""]))
        mentions.append(
            MentionInContext(text, start, start + len(" ".join(words[first : last + 1])))
        )
    read = reader(20)
    alone = [read.tokens([mention])[0] for mention in mentions]
    for a, b in zip(read.tokens(mentions), alone, strict=True):
        assert a.ids.tolist() == b.ids.tolist() and (a.start, a.end) == (b.start, b.end)


MS = Entity("C1", "Multiple sclerosis", ("MS", "Sclerosis"), ("Disease", "Finding"), "Of nerves.")


def test_a_mention_inside_a_word_leaves_the_word_whole_for_others() -> None:
    text = "at 3°C a severe pain"
    inside, other = MentionInContext(text, 4, 6), MentionInContext(text, 16, 20)
    together, alone = reader().tokens([inside, other])[1], reader().tokens([other])[0]
    assert as_pieces(together) == as_pieces(alone)
    assert as_pieces(alone).count("[UNK]") == 1  # "3°C"


def test_the_rows_of_an_entity() -> None:
    types, bare = "Disease, Finding", MS._replace(definition=None)
    whole = EntityText(MS[1], types, "MS; Sclerosis. Of nerves.")
    assert proxy_texts(MS, "entity") == [whole]
    assert proxy_texts(bare, "entity") == [whole._replace(description="MS; Sclerosis")]
    # The text of the paper (PEL, appendix A): title, types and description.
    assert proxy_texts(MS, "title") == [EntityText(MS[1], types, "Of nerves.")]
    names = [EntityText(MS[1], types), *(EntityText(n, types, MS[1]) for n in MS.aliases)]
    assert proxy_texts(MS, "name") == names
    described = [text.description for text in proxy_texts(MS, "described-name")]
    assert described == ["Of nerves.", *["Multiple sclerosis. Of nerves."] * 2]
    repeated = MS._replace(aliases=("MS", MS[1], "MS"))
    assert [text.title for text in proxy_texts(repeated, "name")] == [MS[1], "MS"]
    assert proxy_texts(Entity("C2", "Aspirin"), "name") == [EntityText("Aspirin")]


PARTS = st.tuples(st.text(max_size=8), st.text(max_size=5), st.text(max_size=8))


@given(st.lists(PARTS), st.integers(3, 16))
def test_any_entities_equal_the_naive_inputs(parts: list[tuple[str, str, str]], n: int) -> None:
    built = entities(n).tokens([EntityText(*p) for p in parts])
    for tokens, texts in zip(built, parts, strict=True):
        tokenised = [pieces(plain(text)) for text in texts]
        last = max((i for i, part in enumerate(tokenised) if part), default=0)
        expected = ["[CLS]"]
        for part in tokenised[: last + 1]:
            expected += [*part, "[SEP]"]
        if len(expected) > n:
            expected = [*expected[: n - 1], "[SEP]"]
        assert as_pieces(tokens) == expected
        assert (tokens.start, tokens.end) == (1, min(1 + len(tokenised[0]), n - 1))


SIDES = st.text(max_size=60), st.sampled_from(["", "acute"]), st.text("ab ,hepatoxic", max_size=60)


@given(mention_in_text(), st.builds(EntityText, *SIDES), st.integers(16, 99))
def test_how_the_length_is_shared(context, entity, length) -> None:
    reader = PairReader(TOKENIZER, length, 512)
    pair = reader.pair(reader.mentions([context])[0], reader.entities([entity])[0])
    tokens = as_pieces(pair)
    left, right = tokens[: pair.start], tokens[pair.start :]
    text, start, end, *_ = context
    before, inside, after = (pieces(part) for part in (text[:start], text[start:end], text[end:]))
    whole_left = ["[CLS]", *before, "[Ms]", *inside, "[Me]", *after, "[SEP]"]
    entity_side = [t for part in entity for t in [*pieces(plain(part)), "[SEP]"]]
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
