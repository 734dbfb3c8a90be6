"""``pel demo``: the demo's data and the configs, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .apps import command, pel
from .terminal import msg


@command(pel, "demo")
def demo_cli(
    folder: Annotated[Path, typer.Argument(help="Folder to make")],
) -> None:
    """Write the demo and the configs into a folder.

    The demo is a knowledge base of 540 entities, annotated documents, and some texts. They come with
    the package: nothing is downloaded.

    \b
    Example:
      python -m spacy pel demo demo
      cd demo
      python -m spacy pel kb build assets/demo/umls kb/demo
      python -m spacy pel train configs/demo.cfg --output training/demo
    """
    from ..tasks.shipped_files import write_demo

    write_demo(folder)
    msg.good(f"Wrote {folder}: configs, assets/demo")
