import os

import pytest
from tokenizers import Tokenizer, models

from spacy_pel.errors import PelError
from spacy_pel.text.token_inputs import WordPieces, train_tokenizer

from ..conftest import run_python
from .pieces import TEXTS, TOKENIZER


def test_a_tokenizer_without_markers_is_refused() -> None:
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[PAD]": 3}))
    with pytest.raises(PelError, match=r"tokenizer has no \[Ms\] token; choose an encoder of BERT"):
        WordPieces(tokenizer)


def test_a_learned_tokenizer() -> None:
    tokenizer = train_tokenizer(TEXTS, 100)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[Ms]", "[Me]"]
    assert [tokenizer.token_to_id(token) for token in special] == list(range(6))
    assert sorted(tokenizer.get_vocab().values()) == list(range(100))
    assert TOKENIZER.encode("HÉPATO toxic").tokens == TOKENIZER.encode("hepato toxic").tokens
    assert TOKENIZER.encode("日").tokens == ["[UNK]"]


TRAINING_SCRIPT = """
import hashlib, itertools
from spacy_pel.text.token_inputs import train_tokenizer
words = ["".join(w) for w in itertools.permutations("abcdef", 4)]  # hundreds of ties
texts = [" ".join(words[i::40]) for i in range(40)]
print(hashlib.md5(train_tokenizer(texts, 200).to_str().encode()).hexdigest())
"""


def test_a_tokenizer_is_learned_alike_in_every_process() -> None:
    ways = ({**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2"))
    assert len({run_python(TRAINING_SCRIPT, env=way) for way in ways}) == 1
