"""Documents cut into words and windows, and the tags of words, beside a search through all."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.kb.pieces import Pieces
from spacy_pel.reading.text_inputs import CLS, SEP, train_tokenizer
from spacy_pel.reading.words import (
    N_SHAPES,
    WordReader,
    allowed_tags,
    shape_of,
    tagged_mentions,
    without_labels,
)

TEXTS = ["Aspirin (ASA) eases pain. It thins blood", "", "pain " * 9]
TOKENIZER = train_tokenizer(TEXTS, 60)


def test_a_window_ends_where_a_sentence_does_and_each_word_is_read_once() -> None:
    pieces = Pieces(TEXTS)
    features = np.zeros((len(pieces.words), 2), dtype=bool)
    features[0, 1] = True  # of "Aspirin"
    length = 2 + sum(len(TOKENIZER.encode(word).ids) for word in pieces.words[:8])
    words, (windows, _) = WordReader(TOKENIZER, length).inputs(pieces, features)
    found = [[text[a:b] for a, b in own] for text, own in zip(TEXTS, words)]
    assert found == ["Aspirin ( ASA ) eases pain . It thins blood".split(), [], ["pain"] * 9]
    assert [window.outputs.tolist() for window in windows[:2]] == [[*range(7)], [7, 8, 9]]
    assert np.concatenate([window.outputs for window in windows]).tolist() == list(range(19))
    assert all(len(window.ids) <= length for window in windows)
    ids, first = windows[0].ids, windows[0].known
    assert [TOKENIZER.id_to_token(id) for id in (ids[0], ids[-1])] == [CLS, SEP]
    assert first["firsts"].sum() == 7
    n_pieces = len(TOKENIZER.encode("aspirin").ids)
    assert np.flatnonzero(first["features"][:, 1]).tolist() == list(range(1, 1 + n_pieces))
    assert (first["features"][1:-1, 2:].sum(1) == 1).all() and not first["features"][0].any()
    assert first["features"].shape[1] == 2 + N_SHAPES


@pytest.mark.parametrize("alike", [("MS", "COPD"), ("5", "12"), ("(", "["), ("B12", "CD4")])
def test_shapes(alike: tuple[str, str]) -> None:
    assert shape_of(alike[0]) == shape_of(alike[1])
    assert len({shape_of(word) for word in ("MS", "Ms", "ms", "M", "5", ".", "(", "é2")}) == 8


# Tags

OUT, B0, I0, B1, I1 = range(5)


def words(n: int) -> np.ndarray:
    """n words of two letters with a blank between them."""
    return np.stack([np.arange(n) * 3, np.arange(n) * 3 + 2], axis=1)


def is_legal(tags: tuple[int, ...]) -> bool:
    return all(
        tag % 2 == 1 or tag == OUT or before in (tag, tag - 1)
        for before, tag in zip((OUT, *tags), tags)
    )


def mentions_of(tags: tuple[int, ...]) -> list[tuple[int, int, int]]:
    found: list[list[int]] = []
    for place, tag in enumerate(tags):
        if tag % 2 == 1:
            found.append([place, place, tag // 2])
        elif tag != OUT:
            found[-1][1] = place
    return [(first * 3, last * 3 + 2, label) for first, last, label in found]


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_the_best_legal_sequence_of_each_document_is_found(lengths: list[int], seed: int) -> None:
    documents = [words(n) for n in lengths]
    scores = np.random.default_rng(seed).normal(size=(sum(lengths), 5)).astype(np.float32)
    parts = np.split(scores, np.cumsum(lengths)[:-1])
    for part, found in zip(parts, tagged_mentions(documents, scores)):
        legal = filter(is_legal, product(range(5), repeat=len(part)))
        best = max(legal, key=lambda tags: sum(part[i, tag] for i, tag in enumerate(tags)))
        assert found == mentions_of(best)


def test_what_may_be_right() -> None:
    mentions = [(3, 8, 0), (13, 14, 1)]  # words 1 and 2; a part of word 4
    allowed = allowed_tags(words(6), mentions, np.array([True, True]))
    assert [set(np.flatnonzero(row)) for row in allowed] == [{OUT}, {B0}, {I0}, {OUT}, {B1}, {OUT}]
    # Outside of mentions a label that is not annotated may be right.
    allowed = allowed_tags(words(2), [(0, 2, 0)], np.array([True, False]))
    assert [set(np.flatnonzero(row)) for row in allowed] == [{B0}, {OUT, B1, I1}]


def test_a_label_that_is_left_out_counts_as_outside() -> None:
    probabilities = np.array([[0.3, 0.4, 0.0, 0.2, 0.1], [0.1, 0.2, 0.5, 0.2, 0.0]], np.float32)
    with np.errstate(divide="ignore"):
        scores = without_labels(np.log(probabilities), np.array([False, True]))
    expected = [[0.6, 0.4, 0, 0, 0], [0.3, 0.2, 0.5, 0, 0]]
    np.testing.assert_allclose(np.exp(scores), expected, atol=1e-6)
