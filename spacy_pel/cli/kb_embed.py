"""``pel kb embed``: a knowledge base gets the vectors of a pipeline's encoder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ..embedding import embed_kb, is_embedded
from ..kb import KnowledgeBase
from .apps import Component, Pipeline, command, kb, msg
from .pipelines import linker_of, load_pipeline


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
