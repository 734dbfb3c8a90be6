"""What the tests of blocks share: how it is linked, two files, and a folder to write; and a BERT."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spacy_pel.tasks.link_docs import LinkingChoices

from .block_examples import TEXTS


@pytest.fixture
def choices(tiny_folder: Path) -> LinkingChoices:
    return LinkingChoices(str(tiny_folder), batch_size=1)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of five documents and one, two of which make a block."""
    monkeypatch.setattr("spacy_pel.tasks.link_folder.DOCUMENTS_PER_PART", 2)
    monkeypatch.setattr("spacy_pel.tasks.link_files.DOCUMENTS_PER_PART", 2)
    monkeypatch.setattr("spacy_pel.tasks.blocks.BYTES_PER_GROUP", 1)
    folder = tmp_path / "notes"
    folder.mkdir()
    lines = [json.dumps({"text": text, "id": f"a{n}"}) for n, text in enumerate(TEXTS)]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf8")
    (folder / "b.jsonl").write_text('{"text": "The patient has MS.", "id": "b0"}\n')
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "linked.jsonl"


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
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    BertModel(config).save_pretrained(folder)
    return folder
