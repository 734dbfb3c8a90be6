"""``pel kb build``: from source files to a knowledge base."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..kb import build_kb, read_entities
from .apps import command, kb, msg


@command(kb, "build")
def build_cli(
    source: Annotated[
        Path, typer.Argument(help="A JSONL file in scispaCy's schema, or a UMLS META folder")
    ],
    out: Annotated[Path, typer.Argument(help="Folder to make; a KB that is there is replaced")],
    format: Annotated[
        Optional[str], typer.Option(help="jsonl or rrf, where it cannot be told from the files")
    ] = None,
) -> None:
    """Build a KB from an ontology.

    It has no vectors yet: make them with "kb embed".

    \b
    Example:
      python -m spacy pel kb build umls/2024AA/META kb
    """
    from tqdm import tqdm

    start = time.perf_counter()
    entities = tqdm(read_entities(source, format=format), desc="Reading", unit=" entities")
    with entities:
        made = build_kb(entities, out, sources=[str(source)])
    counts = made.manifest["counts"]
    msg.good(
        f"Built {out}: {counts['entities']:,} entities with {counts['aliases']:,} aliases in "
        f"{time.perf_counter() - start:.1f} s"
    )
    msg.text(f"To link to it, embed it: python -m spacy pel kb embed {out} PIPELINE")
