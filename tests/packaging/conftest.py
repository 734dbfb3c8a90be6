"""A BERT that pipelines are made of."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """The folder of a BERT with random weights, as Hugging Face stores one."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz."]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    tokenizer = Tokenizer(
        models.WordPiece({word: n for n, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    folder = tmp_path / "bert"
    BertTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )
    BertModel(config).save_pretrained(folder)
    return folder
