"""Pretrain an encoder on plain texts with masked words (Devlin et al. 2019, section 3.1).

The names of an entity are a text, too. Use a GPU: an H200 needs three minutes, two cores would need days.
OUT is a folder in Hugging Face's format.
"""

import shutil
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor, nn
from tqdm import trange
from transformers import AutoTokenizer, BertForMaskedLM, PreTrainedTokenizerFast, get_scheduler

from spacy_pel.corpora.open_documents import open_documents
from spacy_pel.io.whole_files import whole_folder
from spacy_pel.kb import KnowledgeBase

LENGTH, BATCH = 256, 128  # tokens of a block, blocks of a step
HIDDEN = 0.2  # share of words; 8 of 10 become [MASK], one another word piece, and one stays
RATE, WARMUP = 6e-4, 0.06


def main(
    encoder: Path,
    out: Path,
    kb: Annotated[Path, typer.Option(help="The names of its entities are texts, too")],
    texts: Annotated[list[Path], typer.Option(help="Annotated or plain")],
    layers: Annotated[int, typer.Option(help="The first of the encoder")] = 4,
    steps: int = 7_000,
    seed: int = 0,
) -> None:
    """Train the first layers of the encoder, and write them."""
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = BertForMaskedLM.from_pretrained(encoder, num_hidden_layers=layers).to(device).train()
    names = (" ; ".join(entity.names[:8]) for entity in KnowledgeBase.open(kb))
    of_files = (raw.document().text for raw in open_documents(texts))
    blocks = blocks_of(chain(names, of_files), tokenizer).to(device)
    hide = Hiding(tokenizer, device)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, (0.9, 0.98), 1e-6)
    schedule = get_scheduler("linear", optimizer, int(WARMUP * steps), steps)
    bar = trange(steps, unit=" steps")
    for _ in bar:
        block = blocks[torch.randint(len(blocks), (BATCH,), device=device)]
        read, hidden = hide(block)
        with torch.autocast(device, torch.bfloat16):
            states = model.bert(input_ids=read).last_hidden_state
            scores = model.cls(states[hidden])
        loss = nn.functional.cross_entropy(scores.float(), block[hidden])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        bar.set_postfix(loss=f"{loss.item():.2f}", refresh=False)
    with whole_folder(out) as folder:
        model.bert.save_pretrained(folder)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(encoder / name, folder)
    print(f"{out}: {layers} layers, {len(blocks):,} blocks of text, loss {loss.item():.2f}")


def blocks_of(texts: Iterable[str], tokenizer: PreTrainedTokenizerFast) -> Tensor:
    """Return the tokens of all texts in rows, int64 [n, LENGTH]; each row begins with [CLS]."""

    def tokens() -> Iterator[int]:
        for text in texts:
            yield from tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
            yield tokenizer.sep_token_id

    stream = torch.tensor(list(tokens()))
    rows = stream[: len(stream) // (LENGTH - 1) * (LENGTH - 1)].view(-1, LENGTH - 1)
    return nn.functional.pad(rows, (1, 0), value=tokenizer.cls_token_id)


class Hiding:
    """Masks whole words of tokens, int64 [n, t], and returns the new tokens and a mask, bool [n, t]."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, device: str):
        pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        self.goes_on = torch.tensor([piece.startswith("##") for piece in pieces], device=device)
        self.special = torch.tensor(
            [p in tokenizer.all_special_tokens for p in pieces], device=device
        )
        self.mask, self.n_pieces = tokenizer.mask_token_id, len(pieces)

    def __call__(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        of_word = (~self.goes_on[ids]).cumsum(1) - 1
        hidden = torch.rand(ids.shape, device=ids.device).gather(1, of_word) < HIDDEN
        hidden &= ~self.special[ids]
        kind = torch.rand(ids.shape, device=ids.device)
        read = ids.where(~hidden | (kind >= 0.8), self.mask)
        others = torch.randint(self.n_pieces, ids.shape, device=ids.device)
        return read.where(~hidden | (kind < 0.9), others), hidden


if __name__ == "__main__":
    typer.run(main)
