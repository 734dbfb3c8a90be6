"""``pel kb reduce``: the vectors of a knowledge base in fewer numbers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ..kb.writing.reduction import reduce_vectors
from .apps import command, kb, msg


@command(kb, "reduce")
def reduce_cli(
    folder: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a knowledge base")],
    dim: Annotated[
        int | None,
        typer.Argument(metavar="[DIM]", help="Numbers that a vector is to have; else all it has"),
    ] = None,
    alike: Annotated[
        float | None,
        typer.Option(metavar="COSINE", help="Names of an entity as alike as this are found as one"),
    ] = None,
) -> None:
    """Store the vectors of a KB in fewer numbers, for less memory and a quicker search.

    They are put into the axes along which most of their length is (principal components). The
    pipeline that they were made with goes on as before, at some cost in recall: measure it with
    "pel evaluate". Training its mentions against the reduced KB (project/configs/mentions.cfg) wins
    it back. With --alike 0.95 the index of 50,000 to 2 million vectors has one code for names such
    as "lung cancer" and "lung cancers", so that a search takes half the time; what it finds is
    scored by all names. To have whole vectors again, copy the folder before, or run "kb embed"
    again.

    \b
    Examples:
      cp -r kb kb-128 && python -m spacy pel kb reduce kb-128 128 --alike 0.95
      python -m spacy pel kb reduce kb --alike 0.95
    """
    start = time.perf_counter()
    made, share = reduce_vectors(folder, dim, alike)
    vectors = made.manifest["vectors"]["rows"]
    done = [f"{vectors:,} vectors of {made.dim} dimensions"]
    if dim is not None:
        done.append(f"in {made.stored_dim} numbers, with {share:.1%} of their squared length")
    if alike is not None:
        done.append(f"found by {made.manifest['segments'][0]['vectors']['index']['codes']:,} codes")
    msg.good(f"Reduced {folder}: {', '.join(done)}, in {time.perf_counter() - start:.1f} s")
