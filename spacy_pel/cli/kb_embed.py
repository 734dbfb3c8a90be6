"""``pel kb embed``: a knowledge base gets the vectors of a pipeline's encoder."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..kb import KnowledgeBase
from ..kb.folder.lock import writer_lock
from ..kb.folder.vector_chunks import remove_chunks
from ..pipeline.pipelines import linker_of, load_pipeline
from ..tasks.embedding import embed_kb, has_settings, is_embedded
from .apps import Component, Pipeline, command, kb, msg


@command(kb, "embed")
def embed_cli(
    folder: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a knowledge base")],
    pipeline: Pipeline,
    component: Component = "proxy_linker",
    reuse: Annotated[
        Path | None,
        typer.Option(help="Folder of an older KB, embedded with this pipeline, to copy from"),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="Type of the vectors at rest: float32, float16, int8 or auto")
    ] = "auto",
    index: Annotated[str, typer.Option(help="Kind of the index, or auto")] = "auto",
    engine: Annotated[
        str, typer.Option(help="local: this computer; ray: the actors of a Ray cluster")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster; without, Ray is started here")
    ] = None,
) -> None:
    """Give a KB a pipeline's vectors.

    They take the place of those it has. Needed after each training, as a linker refuses the
    vectors of another encoder. If it is interrupted, run it again: it goes on with the last
    finished chunk.

    \b
    Examples:
      python -m spacy pel kb embed kb training/model-best
      python -m spacy pel kb embed umls-2025AA training/model-best --reuse umls-2024AB
    """
    from tqdm import tqdm

    linker = linker_of(load_pipeline(pipeline), component)
    with KnowledgeBase.open(folder) as present:  # closed again, so that its old files can go
        fits = is_embedded(present, linker)
        done = fits and has_settings(present, dtype, index)
        if fits and reuse is None and present.manifest["vectors"]["dtype"] == "float32":
            reuse = folder  # what the encoder gave: it need not be asked again
    if done:
        with writer_lock(folder):  # a run that was killed at the last moment left its chunks
            remove_chunks(folder)
        msg.good(f"{folder} has the vectors of this encoder already")
        return
    start = time.perf_counter()
    made = embed_kb(
        folder,
        linker,
        dtype=dtype,
        index=index,
        reuse=None if reuse is None else KnowledgeBase.open(reuse),
        engine=engine,
        address=address,
        progress=partial(tqdm, desc="Encoding", unit=" entities"),
        report=msg.info,
    )
    rows = made.manifest["vectors"]["rows"]
    msg.good(
        f"Embedded {folder}: {len(made):,} entities, {rows:,} vectors of {made.dim} dimensions, "
        f"one for each {made.row_kind}, in {time.perf_counter() - start:.1f} s"
    )
