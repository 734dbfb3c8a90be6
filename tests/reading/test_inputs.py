from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from spacy_pel.errors import PelError
from spacy_pel.reading.inputs import (
    EntityText,
    InputBuilder,
    MentionInContext,
    TokenIds,
    batches_by_length,
    pad,
    train_tokenizer,
)

TEXTS = [
    "the patient had hepatotoxicity and severe pain after aspirin",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "toxic hepatitis, acute; methyl groups (1 2 3)",
]
TOKENIZER = train_tokenizer(TEXTS, 150)
REFERENCE = Tokenizer.from_str(TOKENIZER.to_str())
REFERENCE.encode_special_tokens = True


def builder(mention_length: int = 64, entity_length: int = 64, limit: int = 64) -> InputBuilder:
    return InputBuilder(TOKENIZER, mention_length, entity_length, limit)


def pieces(*texts: str) -> list[str]:
    """The word pieces of texts that are tokenised apart."""
    return [p for t in texts for p in REFERENCE.encode(t, add_special_tokens=False).tokens]


def as_pieces(tokens: TokenIds) -> list[str]:
    return [REFERENCE.id_to_token(int(id)) for id in tokens.ids]


def naive_mention(
    left: list[str], middle: list[str], right: list[str], length: int, limit: int
) -> tuple[list[str], int]:
    """Appendix A, context dealt out one piece at a time; and where the mention starts."""
    middle = middle[: limit - 4]
    n_left = n_right = 0
    turn_of_right = True
    while n_left + n_right + len(middle) + 4 < min(length, limit):
        left_over, right_over = n_left < len(left), n_right < len(right)
        if not left_over and not right_over:
            break
        if (turn_of_right and right_over) or not left_over:
            n_right += 1
        else:
            n_left += 1
        turn_of_right = not turn_of_right
    context = left[len(left) - n_left :]
    sequence = ["[CLS]", *context, "[Ms]", *middle, "[Me]", *right[:n_right], "[SEP]"]
    return sequence, len(context) + 2


def test_a_mention_in_context_is_appendix_a() -> None:
    text = "the patient had hepatotoxicity after aspirin"
    tokens = builder().mentions([MentionInContext(text, 16, 30)])[0]
    expected = [
        "[CLS]", *pieces("the patient had"), "[Ms]", *pieces("hepatotoxicity"), "[Me]",
        *pieces("after aspirin"), "[SEP]",
    ]  # fmt: skip
    assert as_pieces(tokens) == expected
    assert expected[tokens.start : tokens.end] == pieces("hepatotoxicity")
    assert tokens.ids.dtype == np.int32


@pytest.mark.parametrize(
    ("length", "mention", "expected"),
    [
        (9, "m", "[CLS] k l [Ms] m [Me] n o [SEP]"),
        (10, "m", "[CLS] k l [Ms] m [Me] n o p [SEP]"),
        (9, "b", "[CLS] a [Ms] b [Me] c d e [SEP]"),
        (9, "y", "[CLS] v w x [Ms] y [Me] z [SEP]"),
        (9, "a", "[CLS] [Ms] a [Me] b c d e [SEP]"),
        (9, "z", "[CLS] v w x y [Ms] z [Me] [SEP]"),
        (5, "m", "[CLS] [Ms] m [Me] [SEP]"),
        (8, "g h i j k l m n", "[CLS] [Ms] g h i j k l m n [Me] [SEP]"),  # never truncated
    ],
)
def test_context_is_shared_evenly_and_spills_over(length: int, mention: str, expected: str) -> None:
    start = TEXTS[1].index(mention)
    tokens = builder(length).mentions([MentionInContext(TEXTS[1], start, start + len(mention))])[0]
    assert as_pieces(tokens) == expected.split()
    assert as_pieces(tokens)[tokens.start : tokens.end] == mention.split()


def test_only_the_encoders_last_position_cuts_a_mention() -> None:
    tokens = builder(64, limit=8).mentions([MentionInContext(TEXTS[1], 0, len(TEXTS[1]))])[0]
    assert as_pieces(tokens) == "[CLS] [Ms] a b c d [Me] [SEP]".split()
    assert (tokens.start, tokens.end) == (2, 6)


def test_a_mention_in_the_middle_of_a_word() -> None:
    tokens = builder().mentions([MentionInContext("severe hepatotoxicity", 13, 18)])[0]
    left, middle, right = pieces("severe hepato"[:13]), pieces("toxic"), pieces("ity")
    assert as_pieces(tokens) == ["[CLS]", *left, "[Ms]", *middle, "[Me]", *right, "[SEP]"]


@pytest.mark.parametrize("empty", [("", 0, 0), ("pain", 0, 0), ("pain", 4, 4), ("a   b", 2, 3)])
def test_a_mention_without_tokens_has_its_markers(empty: tuple[str, int, int]) -> None:
    text, start, end = empty
    tokens = builder().mentions([MentionInContext(*empty)])[0]
    left, right = pieces(text[:start]), pieces(text[end:])
    assert as_pieces(tokens) == ["[CLS]", *left, "[Ms]", "[Me]", *right, "[SEP]"]
    assert tokens.start == tokens.end


def test_special_tokens_spelt_out_in_a_text_are_text() -> None:
    text = "methyl [Me] a [SEP] [Ms]"
    tokens = builder().mentions([MentionInContext(text, 12, 13)])[0]
    assert [as_pieces(tokens).count(s) for s in ("[Ms]", "[Me]", "[SEP]")] == [1, 1, 1]
    title = builder().entities([EntityText("a [SEP] b")])[0]
    assert as_pieces(title).count("[SEP]") == 1


@st.composite
def mention_in_text(draw: st.DrawFn) -> MentionInContext:
    letters = st.one_of(st.sampled_from("ab hepatoxic,"), st.characters(codec="utf-8"))
    text = draw(st.text(letters, max_size=40))
    offsets = st.integers(0, len(text))
    start, end = sorted((draw(offsets), draw(offsets)))
    return MentionInContext(text, start, end)


@settings(deadline=None)
@given(mention_in_text(), st.integers(5, 40), st.integers(5, 40))
def test_any_mention_equals_the_naive_input(
    mention: MentionInContext, length: int, limit: int
) -> None:
    text, start, end = mention
    tokens = builder(length, limit=limit).mentions([mention])[0]
    parts = [pieces(part) for part in (text[:start], text[start:end], text[end:])]
    expected, first = naive_mention(*parts, length, limit)
    assert as_pieces(tokens) == expected
    assert (tokens.start, tokens.end) == (first, first + len(parts[1][: limit - 4]))
    assert len(tokens.ids) <= max(min(length, limit), min(limit, len(parts[1]) + 4))


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["hepatotoxicity", "a", "pain,", "日本", "é", "x-y"]), min_size=1),
    st.data(),
)
def test_many_mentions_of_a_document_equal_one_at_a_time(
    words: list[str], data: st.DataObject
) -> None:
    text = " ".join(words)
    starts = np.cumsum([0] + [len(word) + 1 for word in words])
    mentions = []
    for _ in range(data.draw(st.integers(1, 5))):
        first = data.draw(st.integers(0, len(words) - 1))
        last = data.draw(st.integers(first, len(words) - 1))
        mentions.append(MentionInContext(text, int(starts[first]), int(starts[last + 1]) - 1))
    mentions.append(MentionInContext("another pain", 8, 12))
    build = builder(20)
    alone = [build.mentions([mention])[0] for mention in mentions]
    for a, b in zip(build.mentions(mentions), alone, strict=True):
        assert a.ids.tolist() == b.ids.tolist() and (a.start, a.end) == (b.start, b.end)


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
    tokens = builder().entities([entity])[0]
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
    for build in (builder(entity_length=length), builder(limit=length)):
        tokens = build.entities([entity])[0]
        assert as_pieces(tokens) == expected.split()
        assert as_pieces(tokens)[tokens.start : tokens.end] == title.split()


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=5), st.text(max_size=8))))
def test_any_entities_equal_the_naive_inputs(parts: list[tuple[str, str, str]]) -> None:
    built = builder(entity_length=12).entities([EntityText(*p) for p in parts])
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


def test_a_tokenizer_without_markers_is_refused() -> None:
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[PAD]": 3}))
    with pytest.raises(PelError, match=r"tokenizer has no \[Ms\] token; choose an encoder of BERT"):
        InputBuilder(tokenizer, 8, 8, 8)


def test_padding() -> None:
    inputs = [
        TokenIds(np.array([5, 6, 7], dtype=np.int32), 1, 2),
        TokenIds(np.array([8], dtype=np.int32), 0, 0),  # a mention without tokens
        TokenIds(np.array([9, 4], dtype=np.int32), 0, 2),
    ]
    batch = pad(inputs, 3)
    assert batch.ids.dtype == np.int64
    assert batch.ids.tolist() == [[5, 6, 7], [8, 3, 3], [9, 4, 3]]
    assert batch.mask.tolist() == [[True] * 3, [True, False, False], [True, True, False]]
    assert batch.focus.tolist() == [[False, True, False], [True, False, False], [True, True, False]]


@settings(deadline=None)
@given(st.lists(st.integers(1, 30)), st.integers(1, 60))
def test_batches_hold_each_input_once_and_no_more_than_they_may(
    lengths: list[int], max_tokens: int
) -> None:
    inputs = [TokenIds(np.zeros(n, dtype=np.int32), 0, 1) for n in lengths]
    groups = batches_by_length(inputs, max_tokens)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    in_order = [lengths[i] for group in groups for i in group]
    assert in_order == sorted(lengths)
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[i] for i in group) <= max_tokens
    for group, following in zip(groups, groups[1:]):  # no group that might have held one more
        assert (len(group) + 1) * lengths[following[0]] > max_tokens


def test_a_learned_tokenizer() -> None:
    tokenizer = train_tokenizer(TEXTS, 100)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[Ms]", "[Me]"]
    assert [tokenizer.token_to_id(token) for token in special] == list(range(6))
    ids = sorted(tokenizer.get_vocab().values())
    assert ids == list(range(100)) and tokenizer.get_vocab_size() == 100
    assert TOKENIZER.encode("HÉPATO toxic").tokens == TOKENIZER.encode("hepato toxic").tokens
    assert "[UNK]" not in TOKENIZER.encode(TEXTS[0]).tokens
    assert TOKENIZER.encode("日").tokens == ["[UNK]"]


TRAINING_SCRIPT = """
import hashlib, itertools
from spacy_pel.reading.inputs import train_tokenizer
words = ["".join(w) for w in itertools.permutations("abcdef", 4)]  # hundreds of ties
texts = [" ".join(words[i::40]) for i in range(40)]
print(hashlib.md5(train_tokenizer(texts, 200).to_str().encode()).hexdigest())
"""


def test_a_tokenizer_is_learned_alike_in_every_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", TRAINING_SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1
