import random
import re
from unittest import mock

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_pel.corpora import Document, make_doc
from spacy_pel.corpora.doc_conversion import MAX_RUN, MAX_SIGNS, tokens_of
from spacy_pel.corpora.document import mention_at
from spacy_pel.errors import PelError
from spacy_pel.spans import split_tokens

from ..growth import assert_linear
from .formats.examples import NLP, QUICK

SMALL = spacy.blank("en")
SMALL.max_length = 40


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


@pytest.mark.parametrize("run", [10**9, MAX_RUN])  # of one that is cut, of many that are not
def test_the_time_is_linear(run: int) -> None:
    def read(text: str) -> None:
        assert make_doc(spacy.blank("en"), Document(text), None).text == text  # nothing is cached

    assert_linear(read, lambda n: "(" * n if n < run else ("(" * run + " ") * (n // run), 1_000)


@pytest.mark.parametrize("before, after", [("", ""), ("x" * 600, "b")])
def test_many_different_signs_are_read_in_short_pieces(before: str, after: str) -> None:
    text = before + "".join(random.Random(0).choices("([{<)]}>='", k=2_000)) + after
    nlp = spacy.blank("en")
    with mock.patch.object(nlp, "make_doc", wraps=nlp.make_doc) as made:
        assert tokens_of(nlp, text).text == text
    signs = [call.args[0] for call in made.call_args_list if not call.args[0].isalnum()]
    assert max(map(len, signs[1:])) <= MAX_SIGNS + 1


@pytest.mark.parametrize("form", ["{}", "{}1", "a{}b", "Dose {}, weekly"])
def test_rulers_and_leaders_are_read_as_before(form: str) -> None:
    for sign in "=*.-#~_!+|/\\<(":
        text = form.format(sign * 90)
        assert [t.text for t in tokens_of(NLP, text)] == [t.text for t in NLP.make_doc(text)]


PIECES = st.sampled_from([" ", "\n", "  ", "don't ", "(", "x" * 600, "(" * 501, " " * 700])


@QUICK
@given(st.lists(st.text(max_size=20) | PIECES, max_size=20).map("".join))
def test_the_text_is_kept(text: str) -> None:
    assert tokens_of(NLP, text).text == text


def seen(doc: Doc) -> list[tuple]:
    return [(t.text, t.whitespace_, t.norm_, t.is_sent_start) for t in doc]


def test_around_a_long_run_all_is_as_before() -> None:
    before, after = "I don't know (MS). ", " Don't, she said."
    doc = tokens_of(NLP, f"{before}{'x' * 1_200}{after}")
    inside = [token for token in doc if set(token.text) == {"x"}]
    assert [len(token) for token in inside] == [500, 500, 200]
    assert seen(doc)[: inside[0].i] == seen(NLP.make_doc(before))
    ends = seen(doc)[inside[-1].i + 1 :], seen(NLP.make_doc(after.strip()))
    assert [row[:3] for row in ends[0]] == [row[:3] for row in ends[1]]
    assert not doc.has_annotation("SENT_START") and not doc.user_data and not len(doc.tensor)


def test_languages_without_blanks_are_left_to_their_tokenizers() -> None:
    text, chinese = "多発性硬化症" * 200, spacy.blank("zh")  # by characters
    assert [t.text for t in tokens_of(chinese, text)] == list(text)
    with pytest.raises(PelError, match="E088.* of 1000000; split the document, or raise nlp.max_"):
        make_doc(chinese, Document("x" * 1_000_001), None)


@QUICK
@given(st.text(alphabet="ab.(' \n\t\u00a0", max_size=300))
def test_a_text_longer_than_spacys_limit_has_the_same_tokens(text: str) -> None:
    pieces = re.split(r"(?<=\S )(?=\S)|(?<=\S)(?=[^\S ])", text)
    if max(map(len, pieces)) <= 20:  # else there is no place to cut
        assert seen(tokens_of(SMALL, text)) == seen(NLP.make_doc(text))


def test_only_the_tokens_of_the_edges_are_split() -> None:
    doc = NLP.make_doc("I don't  have pre-MS now.")
    doc.user_data["id"] = "d1"
    split, n = split_tokens(doc, {0, 2, 11, 12, 15, 21, 100})
    assert n == 2 and split.text == doc.text and split.user_data == {"id": "d1"}
    assert [token.norm_ for token in split][:3] == ["i", "do", "not"]
    before, after = [t.text for t in doc], [t.text for t in split]
    assert before[3:6] == [" ", "have", "pre"] and after[3:9] == [" ", "ha", "v", "e", "p", "re"]
    assert (before[:4], before[6:]) == (after[:4], after[9:])


def test_many_tokens_are_split_in_time() -> None:
    def cut(doc: Doc) -> None:
        assert split_tokens(doc, range(1, len(doc.text), 4))[1] == len(doc)

    assert_linear(cut, lambda n: NLP.make_doc("abc " * n), 2_000)
