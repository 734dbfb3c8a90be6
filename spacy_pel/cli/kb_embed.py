"""``pel kb embed``: gives a knowledge base the vectors of a pipeline's encoder."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .apps import Component, Pipeline, command, kb
from .progress_bar import progress_bar
from .terminal import msg


@command(kb, "embed")
def embed_cli(
    folder: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a knowledge base")],
    pipeline: Pipeline,
    component: Component = "proxy_linker",
    reuse: Annotated[
        Path | None,
        typer.Option(
            help="Folder of an older KB with vectors of this pipeline; what is unchanged is copied"
        ),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="Type in which vectors are stored: float32, float16, int8 or auto")
    ] = "auto",
    index: Annotated[
        str, typer.Option(help="Kind of the index: exact, approximate or auto")
    ] = "auto",
    dim: Annotated[
        int | None,
        typer.Option(help="Numbers in which a vector is stored [default: as the encoder gives]"),
    ] = None,
    alike: Annotated[
        float | None,
        typer.Option(
            metavar="COSINE",
            help="Names of an entity with at least this cosine share a code of the index",
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="local: this computer; ray: a Ray cluster")] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Address of the Ray cluster [default: Ray is started on this computer]"),
    ] = None,
) -> None:
    """Give a KB the vectors of a pipeline.

    They replace the vectors that the KB has, also those of the mentions that it has learnt. Run this
    after each training: a linker refuses vectors of another encoder. After an interruption, run the
    same command again: it goes on after the last chunk that was finished.

    With --dim, each vector is stored in fewer numbers: its coordinates along the principal components
    of all vectors. Search then needs less memory and less time. The pipeline works as before, with
    some loss of recall. Measure it with "pel evaluate". To win it back, train the mention encoder
    against the reduced KB (project/configs/mentions.cfg).

    With --alike 0.95, similar names of an entity, such as "lung cancer" and "lung cancers", share a
    code in the index. This halves the time of a search among 50,000 to 2 million vectors. All names
    still count for the scores.

    \b
    Examples:
      python -m spacy pel kb embed kb training/model-best
      python -m spacy pel kb embed kb training/model-best --dim 128 --alike 0.95
      python -m spacy pel kb embed umls-2025AA training/model-best --reuse umls-2024AB
    """
    from ..jobs.embed import update_vectors
    from ..pipeline.pipelines import linker_of, load_pipeline

    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp, component)
    start = time.perf_counter()
    made = update_vectors(
        folder,
        linker,
        dtype=dtype,
        index=index,
        dim=dim,
        alike=alike,
        reuse=reuse,
        engine=engine,
        address=address,
        nlp=nlp,
        progress=partial(progress_bar, desc="Encoding", unit=" entities"),
        report=msg.info,
    )
    if made is None:
        msg.good(f"{folder} has the vectors of this encoder already")
        return
    rows = made.settings["vectors"]["rows"]
    msg.good(
        f"Embedded {folder}: {len(made):,} entities, {rows:,} vectors of {made.dim} dimensions, "
        f"one for each {made.row_kind}, in {time.perf_counter() - start:.1f} s"
    )
