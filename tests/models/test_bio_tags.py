from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.models.bio_tags import allowed_tags, tagged_mentions, without_labels

OUT, B0, I0, B1, I1 = range(5)


def words(n: int) -> np.ndarray:
    """n words of two letters with a blank between them."""
    return np.stack([np.arange(n) * 3, np.arange(n) * 3 + 2], axis=1)


def is_legal(tags: tuple[int, ...]) -> bool:
    pairs = zip((OUT, *tags), tags)
    return all(tag % 2 == 1 or tag == OUT or before in (tag, tag - 1) for before, tag in pairs)


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
