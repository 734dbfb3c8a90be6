import numpy as np
import pytest

from spacy_pel.kb.pieces import Pieces
from spacy_pel.text.token_inputs import CLS, PAD, SEP, train_tokenizer
from spacy_pel.text.word_inputs import N_SHAPES, WordReader, shape_of

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


def test_a_word_that_is_read_whole_is_one_token_with_its_other_pieces() -> None:
    pieces = Pieces(TEXTS)
    features = np.zeros((len(pieces.words), 2), dtype=bool)
    reader = WordReader(TOKENIZER, 2 + 7, whole=True)
    words, (windows, _) = reader.inputs(pieces, features)
    assert [len(window.ids) for window in windows] == [9, 5, 9, 4]
    assert [len(own) for own in words] == [10, 0, 9]
    first, padding = windows[0], TOKENIZER.token_to_id(PAD)
    assert first.known["firsts"].tolist() == [False] + 7 * [True] + [False]
    for word, id, others in zip(pieces.words, first.ids[1:-1], first.known["others"][1:-1]):
        expected = TOKENIZER.encode(word.lower()).ids[:8]
        assert [id, *others] == expected + [padding] * (8 - len(expected))
    assert (first.known["others"][[0, -1]] == padding).all()


@pytest.mark.parametrize("alike", [("MS", "COPD"), ("5", "12"), ("(", "["), ("B12", "CD4")])
def test_shapes(alike: tuple[str, str]) -> None:
    assert shape_of(alike[0]) == shape_of(alike[1])
    assert len({shape_of(word) for word in ("MS", "Ms", "ms", "M", "5", ".", "(", "é2")}) == 8
