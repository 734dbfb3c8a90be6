"""Documents cut into words and windows."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_pel.kb.name_finder import Pieces
from spacy_pel.reading.word_pieces import CLS, SEP, train_tokenizer
from spacy_pel.reading.words import N_SHAPES, WordReader, shape_of, words_of

TEXTS = ["Aspirin (ASA) eases pain. It thins blood", "", "pain " * 9]
TOKENIZER = train_tokenizer(TEXTS, 60)


def test_words_are_runs_of_letters_and_digits_and_single_other_characters() -> None:
    found = [[text[a:b] for a, b in own] for text, own in zip(TEXTS, words_of(Pieces(TEXTS)))]
    assert found[0] == "Aspirin ( ASA ) eases pain . It thins blood".split()
    assert found[1:] == [[], ["pain"] * 9]


def test_a_window_ends_where_a_sentence_does_and_each_word_is_read_once() -> None:
    pieces = Pieces(TEXTS)
    features = np.zeros((len(pieces.words), 2), dtype=bool)
    features[0, 1] = True  # of "Aspirin"
    length = 2 + sum(len(TOKENIZER.encode(word).ids) for word in pieces.words[:8])
    inputs = WordReader(TOKENIZER, length).inputs(pieces, features)
    first = inputs.windows[0]
    assert (first.words, inputs.windows[1].words.start) == (slice(0, 7), 7)
    read = np.concatenate([np.arange(w.words.start, w.words.stop) for w in inputs.windows])
    assert read.tolist() == list(range(inputs.n_outputs)) == list(range(19))
    assert (
        TOKENIZER.id_to_token(first.ids[0]) == CLS and TOKENIZER.id_to_token(first.ids[-1]) == SEP
    )
    assert first.firsts.sum() == 7 and all(len(w.ids) <= length for w in inputs.windows)
    n_pieces = len(TOKENIZER.encode("aspirin").ids)
    assert np.flatnonzero(first.features[:, 1]).tolist() == list(range(1, 1 + n_pieces))
    assert (first.features[1:-1, 2:].sum(1) == 1).all() and not first.features[0].any()


def test_padded_windows_keep_their_words() -> None:
    pieces = Pieces(TEXTS)
    inputs = WordReader(TOKENIZER, 64).inputs(pieces, np.zeros((len(pieces.words), 0), dtype=bool))
    batch, _ = inputs.padded(np.array([1, 0]), 0, 0)
    assert batch.firsts.sum(1).tolist() == [9, 10]
    assert inputs.outputs_of(np.array([1, 0])).tolist() == [*range(10, 19), *range(10)]
    assert batch.features.shape == (*batch.ids.shape, N_SHAPES)


@pytest.mark.parametrize(
    "alike", [("MS", "COPD"), ("asthma", "gout2b"[:4]), ("5", "12"), ("(", "["), ("B12", "CD4")]
)
def test_shapes(alike: tuple[str, str]) -> None:
    assert shape_of(alike[0]) == shape_of(alike[1]) or alike[0] == "asthma"
    assert len({shape_of(word) for word in ("MS", "Ms", "ms", "M", "5", ".", "(", "é2")}) == 8
