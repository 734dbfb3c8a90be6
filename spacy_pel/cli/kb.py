"""``pel kb build``, ``embed`` and ``info``."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from ..embedding import embed_kb, is_embedded
from ..kb import KnowledgeBase, build_kb, read_entities
from .apps import Component, Pipeline, command, kb, msg
from .pipelines import linker_of, load_pipeline

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


@command(kb, "embed")
def embed_cli(
    folder: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a knowledge base")],
    pipeline: Pipeline,
    component: Component = "proxy_linker",
) -> None:
    """Give a KB a pipeline's vectors.

    They take the place of those it has. Needed after each training, as a linker refuses the
    vectors of another encoder.

    \b
    Example:
      python -m spacy pel kb embed kb training/model-best
    """
    from tqdm import tqdm

    present = KnowledgeBase.open(folder)
    linker = linker_of(load_pipeline(pipeline), component)
    if is_embedded(present, linker):
        msg.good(f"{folder} has the vectors of this encoder already")
        return
    start = time.perf_counter()
    with tqdm(total=len(present), desc="Encoding", unit=" entities") as bar:
        made = embed_kb(folder, linker, progress=bar.update)
    rows = made.manifest["vectors"]["rows"]
    msg.good(
        f"Embedded {folder}: {len(made):,} entities, {rows:,} vectors of {made.dim} dimensions, "
        f"one for each {made.row_kind}, in {time.perf_counter() - start:.1f} s"
    )


@command(kb, "info")
def info_cli(
    folder: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a knowledge base")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Show what a KB holds.

    \b
    Example:
      python -m spacy pel kb info kb
    """
    info = kb_info(folder)
    if as_json:
        typer.echo(json.dumps(info, indent=2, ensure_ascii=False))
        return
    msg.table(
        {name: _readable(value) for name, value in info.items()}, aligns=("l", "l"), max_col=1000
    )


def kb_info(folder: Path) -> dict[str, Any]:
    """Counts, sources, sizes in bytes and vectors of a KB, as plain data; None without vectors.

    Raises PelError if there is no KB or it is not whole.
    """
    opened = KnowledgeBase.open(folder)
    counts, vectors = opened.manifest["counts"], opened.manifest["vectors"] or {}
    return {
        "path": str(opened.path),
        "created_by": opened.manifest["created_by"],
        "sources": opened.manifest["sources"],
        **{name: counts[name] for name in ("entities", "aliases", "definitions", "alt_ids")},
        "bytes": sum(file["bytes"] for file in opened.manifest["files"].values()),
        **{name: vectors.get(name) for name in ("rows", "row_kind", "dim", "fingerprint")},
    }


def _readable(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(value)
    return "-" if value is None else value
