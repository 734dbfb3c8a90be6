"""``pel kb reduce``: makes the vectors of a knowledge base smaller."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from .apps import command, kb
from .terminal import msg


@command(kb, "reduce")
def reduce_cli(
    folder: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a knowledge base")],
    dim: Annotated[
        int | None,
        typer.Argument(
            metavar="[DIM]", help="Numbers that a vector is to have [default: as many as it has]"
        ),
    ] = None,
    alike: Annotated[
        float | None,
        typer.Option(
            metavar="COSINE",
            help="Names of an entity with at least this cosine share a code of the index",
        ),
    ] = None,
) -> None:
    """Make the vectors of a KB smaller.

    Search then needs less memory and less time. With DIM, each vector is stored in fewer numbers:
    its coordinates along the principal components of all vectors. The pipeline works as before, with
    some loss of recall. Measure it with "pel evaluate". To win it back, train the mention encoder
    against the reduced KB (project/configs/mentions.cfg).

    With --alike 0.95, similar names of an entity, such as "lung cancer" and "lung cancers", share a
    code in the index. This halves the time of a search among 50,000 to 2 million vectors. All names
    still count for the scores.

    To leave out entities, build a new KB of this one: kb build KB NEW --without-type TYPE, and then
    kb embed NEW PIPELINE --reuse KB.

    The change is final. Copy the folder first, or make whole vectors again with "kb embed".

    \b
    Examples:
      cp -r kb kb-128 && python -m spacy pel kb reduce kb-128 128 --alike 0.95
      python -m spacy pel kb reduce kb --alike 0.95
    """
    from ..kb.writing.reduction import reduce_vectors

    start = time.perf_counter()
    made, share = reduce_vectors(folder, dim, alike)
    vectors = made.manifest["vectors"]["rows"]
    done = [f"{vectors:,} vectors of {made.dim} dimensions"]
    if dim is not None:
        done.append(f"in {made.stored_dim} numbers, with {share:.1%} of their squared length")
    if alike is not None:
        done.append(f"found by {made.manifest['segments'][0]['vectors']['index']['codes']:,} codes")
    msg.good(f"Reduced {folder}: {', '.join(done)}, in {time.perf_counter() - start:.1f} s")
