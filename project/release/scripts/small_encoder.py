"""Make a small encoder of a BERT: some of its layers, and the word pieces that some texts use.

The tokenizer keeps all single characters and all special tokens, so it still reads any text: a word
whose pieces are gone is read in smaller pieces. OUT is a folder in Hugging Face's format.
"""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import torch
import typer
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer

from spacy_pel.corpora.open_documents import open_documents
from spacy_pel.kb import KnowledgeBase
from spacy_pel.models.bert import with_layers

BATCH = 4096  # texts that are tokenised at a time


def main(
    encoder: str,
    out: Path,
    kb: Annotated[Path, typer.Option(help="Its names and definitions are texts, too")],
    layers: Annotated[int, typer.Option(help="Spread evenly; 0: all")] = 0,
    texts: Annotated[list[Path], typer.Option(help="Those that are there")] = [],
) -> None:
    """Write the encoder, and say what is left of it."""
    tokenizer = AutoTokenizer.from_pretrained(encoder, use_fast=True).backend_tokenizer
    of_kb = ((*entity.names, entity.definition or "") for entity in KnowledgeBase.open(kb))
    there = open_documents([path for path in texts if path.exists()])
    of_files = (raw.document().text for raw in there)
    kept = kept_pieces(tokenizer, chain(chain.from_iterable(of_kb), of_files))
    numbers = list(kept.values())
    transformer = AutoModel.from_pretrained(encoder)
    if layers:
        transformer = with_layers(transformer, layers, spread=True)
    rows = transformer.get_input_embeddings().weight.detach()[numbers].clone()
    transformer.resize_token_embeddings(len(numbers), mean_resizing=False)
    transformer.get_input_embeddings().weight.data = rows
    # The padding is the first piece of a BERT, and stays so.
    transformer.config.vocab_size = len(numbers)
    write(out, transformer, tokenizer, list(kept))
    of = f"{len(kept):,} of {len(tokenizer.get_vocab()):,} word pieces"
    print(f"{out}: {transformer.config.num_hidden_layers} layers, {of}")


def kept_pieces(tokenizer: Tokenizer, texts: Iterator[str]) -> dict[str, int]:
    """Return the word pieces to keep and their numbers, in order."""
    used: Counter[int] = Counter()
    while batch := list(islice(texts, BATCH)):
        for encoding in tokenizer.encode_batch_fast(batch):
            used.update(encoding.ids)
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    return {
        piece: number
        for piece, number in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        if used[number] or piece in special or len(piece.removeprefix("##")) == 1
    }


def write(out: Path, transformer: torch.nn.Module, tokenizer: Tokenizer, pieces: list[str]) -> None:
    """Write the encoder and its tokenizer, whose pieces are numbered anew."""
    transformer.save_pretrained(out)
    described = json.loads(tokenizer.to_str())
    numbers = {piece: number for number, piece in enumerate(pieces)}
    described["model"]["vocab"] = numbers
    for token in described["added_tokens"]:
        token["id"] = numbers[token["content"]]
    for token in (described["post_processor"] or {}).get("special_tokens", {}).values():
        token["ids"] = [numbers[name] for name in token["tokens"]]
    described["padding"] = described["truncation"] = None
    (out / "tokenizer.json").write_text(json.dumps(described, ensure_ascii=False))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512}
    for name in ("unk", "sep", "pad", "cls", "mask"):
        settings[f"{name}_token"] = f"[{name.upper()}]"
    (out / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))


if __name__ == "__main__":
    typer.run(main)
